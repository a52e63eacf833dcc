-- Ten requests are six products, the home page, and three steps of a customer: fill the cart, look
-- at it, and buy. The steps are so far apart that each is answered before the next, even on another
-- connection.
local STEPS = 10
local APART = 20 -- turns of ten requests
local number = 0
local run = os.time()

local json = { ["Content-Type"] = "application/json" }

request = function()
  local step = number % STEPS
  local turn = math.floor(number / STEPS)
  number = number + 1
  local customer = function(turn) return "w" .. run .. "-" .. turn end
  if step == 0 then
    return wrk.format("GET", "/")
  elseif step == 1 then
    return wrk.format("POST", "/cart", json,
      string.format('{"customer": "%s", "product": %d, "quantity": 1}', customer(turn), turn % 200 + 1))
  elseif step == 2 and turn >= APART then
    return wrk.format("GET", "/cart?customer=" .. customer(turn - APART))
  elseif step == 3 and turn >= 2 * APART then
    local buyer = customer(turn - 2 * APART)
    return wrk.format("POST", "/checkout", json,
      string.format('{"customer": "%s", "order_key": "%s", "card": "4242424242424242"}', buyer, buyer))
  end
  return wrk.format("GET", "/product/" .. number % 200 + 1)
end

-- One order after another.
local number = 0

request = function()
  number = number % 1000 + 1
  return wrk.format("GET", "/orders/" .. number)
end

-- Requests one page after another: `wrk ... -- PATH ITEMS`. {} in the path is replaced by 1 to
-- ITEMS.
local path, items
local number = 0

init = function(arguments)
  path, items = arguments[1], tonumber(arguments[2])
end

request = function()
  number = number % items + 1
  return wrk.format("GET", (path:gsub("{}", number)))
end

-- Calls a program of others, named by the first argument, with the files that are the further ones.

local function text(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  return text
end

local program, texts = arg[1], {}
for index = 2, #arg do
  texts[index - 1] = text(arg[index])
end
if program == "luacheck" then
  local luacheck = require("luacheck")
  for _ = 1, 2 do
    print(#luacheck.check_strings(texts))
  end
else
  print(#require("markdown")(texts[1]))
end
os.exit(0)

# Loaded by a chain.
def of_loaded
  link
end

class Loaded
  of_loaded
end

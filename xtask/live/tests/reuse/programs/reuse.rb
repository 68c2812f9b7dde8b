# Defines a method, runs it for 25 ms of CPU time and frees it, again and again: reuse.rb VARIANT SECONDS.
# Prints for each method: name, file, first line and CPU time in milliseconds.
def now
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
end

LOOP = <<'END'
  total = 0
  while now < limit
    number = 0
    while number < 500
      total = (total + number * number) % 1021
      number += 1
    end
  end
END

# Methods of the same shape, with names of the same length.
def methods_of_main(index)
  name = format('f_%03dx', index)
  eval("def #{name}(limit)\n#{LOOP}end", TOPLEVEL_BINDING, 'methods.rb', 1)
  yield "Object##{name}", 'methods.rb', 1, name.to_sym
end

# Methods with one name, on one line, in different files with long paths.
def files(index)
  file = format('/srv/application/%03d/lib/ruby/gems/plugins/handlers/base.rb', index)
  eval("def run(limit)\n#{LOOP}end", TOPLEVEL_BINDING, file, 1)
  yield 'Object#run', file, 1, :run
end

# Methods with one name, in one file, on different lines.
def lines(index)
  eval("def run(limit)\n#{LOOP}end", TOPLEVEL_BINDING, 'lines.rb', index)
  yield 'Object#run', 'lines.rb', index, :run
end

finish = now + ARGV[1].to_f
index = 1
while now < finish
  send({ 'methods' => :methods_of_main }.fetch(ARGV[0], ARGV[0]), index) do |shown, file, line, name|
    start = now
    send(name, start + 0.025)
    used = (now - start) * 1000
    Object.send(:remove_method, name)
    $stdout.write("#{shown}\t#{file}\t#{line}\t#{used}\n")
  end
  GC.start
  index += 1
end

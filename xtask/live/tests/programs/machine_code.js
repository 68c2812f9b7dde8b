// Calls machine code that V8 didn't compile, of an addon: see machine_code.c.
const spin = require(process.argv[2]);

function callerOfCode(count) {
  for (let call = 0; call < count; call++) spin();
}

for (;;) callerOfCode(1000);

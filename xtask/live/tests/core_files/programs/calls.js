// Four threads: two count in a callback of a builtin, one waits, the main one recurses and then counts.
const { Worker, isMainThread, workerData } = require("worker_threads");

function burn(depth) {
    if (depth > 0) return burn(depth - 1) + 1;
    return [3, 1, 2].sort((a, b) => { spin(); return a - b; }).length;
}

function spin() {
    for (let sum = 0; ; sum++) {
        if (sum % 2e9 === 1) Math.hypot(sum, sum + 1);
    }
}

if (isMainThread) {
    for (const kind of ["burn", "burn", "wait"]) new Worker(__filename, { workerData: kind });
    setTimeout(() => { console.log("ready"); burn(20); }, 500);
} else if (workerData === "burn") {
    burn(10);
} else {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

'use strict';
// Prints the innermost function of a script in each sample of a profile by --cpu-prof: FILE, first microsecond, script.
const { nodes, samples, timeDeltas, startTime } = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
const [begin, script] = [Number(process.argv[3]), process.argv[4]];
const leaves = new Map();
// Nodes stand behind their callers.
function visit(id, above) {
  const { callFrame, children } = byId.get(id);
  const leaf = callFrame.url.endsWith(script) ? callFrame.functionName : above;
  leaves.set(id, leaf);
  for (const child of children || []) visit(child, leaf);
}
const byId = new Map(nodes.map((node) => [node.id, node]));
visit(nodes[0].id, '');
let time = startTime;
samples.forEach((id, index) => {
  time += timeDeltas[index];
  if (time >= begin && leaves.get(id)) console.log(leaves.get(id));
});

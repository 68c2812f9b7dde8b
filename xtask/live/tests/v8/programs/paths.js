'use strict';
// Prints the stacks in a profile by --cpu-prof, with samples and functions from the root on, each with the line where it begins:
// FILE, any, names of scripts. A stack that was seen once is left out: there, a caller may be missing.
const { nodes } = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
const scripts = process.argv.slice(4);
const byId = new Map(nodes.map((node) => [node.id, node]));
function visit(id, above) {
  const { callFrame, children, hitCount } = byId.get(id);
  const isOwn = scripts.some((script) => callFrame.url.endsWith(script));
  const path = isOwn ? above.concat(`${callFrame.functionName || '(anonymous)'}:${callFrame.lineNumber + 1}`) : above;
  const below = (children || []).reduce((sum, child) => sum + visit(child, path), hitCount);
  if (path.length && below > 1) console.log([hitCount, ...path].join('\t'));
  return below;
}
visit(nodes[0].id, []);

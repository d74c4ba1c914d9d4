// Speaks for proper-lockfile; see agent.go for the orders and their answers.
'use strict';
const fs = require('fs');
const readline = require('readline');
const lockfile = require('proper-lockfile');

const path = process.argv[2];
const me = String(process.pid);
const clock = () => process.hrtime.bigint();
const still = new Int32Array(new SharedArrayBuffer(4));
// A timer of node's is good to a millisecond only.
const sleep = (ns) => { if (ns > 0) Atomics.wait(still, 0, 0, Number(ns) / 1e6); };

let release;
const options = {
  realpath: false,
  retries: { forever: true, factor: 1, minTimeout: 10, maxTimeout: 10 },
  onCompromised: () => {}, // otherwise it throws, and the process ends
};
const lock = async () => { release = await lockfile.lock(path, options); };
const unlock = () => release();

async function cycle(ns) {
  const begin = clock();
  let n = 0;
  while (n === 0 || clock() < begin + ns) {
    await lock();
    await unlock();
    n++;
  }
  return [n, clock() - begin, 0];
}

async function loop(begin, ns, hold, think) {
  sleep(begin - clock());
  let count = 0;
  const waits = [];
  while (clock() < begin + ns) {
    const asked = clock();
    await lock();
    const had = clock();
    waits.push(had - asked);
    if (had < begin + ns) count++;
    sleep(hold);
    await unlock();
    sleep(think);
  }
  return [count, ...waits];
}

function alive(pid) {
  for (let i = 0; i < 1000; i++) {
    let stat;
    try { stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8'); } catch { return false; }
    if ('ZX'.includes(stat.slice(stat.lastIndexOf(')') + 2)[0])) return false;
    sleep(1e6);
  }
  return true;
}

function underLock() {
  const mark = path + '.mark', counter = path + '.counter';
  let alone = true;
  try { fs.symlinkSync(me, mark); } catch {
    try {
      alone = !alive(fs.readlinkSync(mark));
      fs.unlinkSync(mark);
      fs.symlinkSync(me, mark);
    } catch { alone = false; }
  }
  let n = 0;
  try { n = Number(fs.readFileSync(counter, 'utf8')); } catch { /* the first */ }
  fs.writeFileSync(`${counter}.${me}`, String(n + 1));
  fs.renameSync(`${counter}.${me}`, counter);
  try {
    alone = fs.readlinkSync(mark) === me && alone;
    fs.unlinkSync(mark);
  } catch { alone = false; }
  return alone;
}

async function obey(order, args) {
  const asked = clock();
  switch (order) {
    case 'lock': await lock(); return [asked, clock()];
    case 'unlock': await unlock(); return [asked, clock()];
    case 'cycle': return cycle(BigInt(args[0]));
    case 'times':
      for (let i = 0; i < Number(args[0]); i++) { await lock(); await unlock(); }
      return [];
    case 'loop': return loop(...args.slice(0, 4).map(BigInt));
    case 'stress':
      for (;;) {
        await lock();
        const alone = underLock();
        await unlock();
        console.log('ok', alone ? 1 : 0);
      }
    default: throw new Error('no such order: ' + order);
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [order, ...args] = line.split(' ');
    try {
      console.log(['ok', ...await obey(order, args)].join(' '));
    } catch (e) {
      console.log('error', String(e.message).split('\n')[0]);
    }
  }
})();

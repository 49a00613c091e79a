"""node: an http server and its clients over kept connections, timers, worker threads, a child, the pool that reads files."""
# ci: none (its packages are heavy: where they are installed)
import os
import shutil
from cairn_test import Skip, same_as_undisturbed

PROGRAM = r"""
const http = require('http'), fs = require('fs'), crypto = require('crypto');
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
const {spawn} = require('child_process');

if (!isMainThread) {
  parentPort.on('message', (n) => {
    if (n === 'end') process.exit(0);
    let hash = 'seed' + workerData;
    for (let i = 0; i < 2000; ++i) hash = crypto.createHash('sha256').update(hash + n).digest('hex');
    parentPort.postMessage(hash);
  });
} else {
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => body += piece);
    request.on('end', () => setTimeout(() => response.end(`${request.url} ${body.length} ` + 'x'.repeat(body.length)), 3));
  });

  async function client(name, agent, port) {
    let total = 0;
    for (let i = 0; i < 60; ++i) {
      const length = (i * 997) % 60000;
      const answer = await new Promise((done, failed) => {
        const request = http.request({port, host: '127.0.0.1', agent, method: 'POST', path: `/${name}/${i}`}, (response) => {
          let text = '';
          response.on('data', (piece) => text += piece);
          response.on('end', () => done(text));
        });
        request.on('error', failed);
        request.end('y'.repeat(length));
      });
      if (answer !== `/${name}/${i} ${length} ` + 'x'.repeat(length)) throw new Error(`wrong answer ${name} ${i}`);
      total += length;
      await sleep(15);
    }
    return `${name} ${total}`;
  }

  async function worker(number) {
    const thread = new Worker(__filename, {workerData: number});
    let last = '';
    for (let i = 0; i < 40; ++i) {
      thread.postMessage(last + i);
      last = await new Promise((done) => thread.once('message', done));
    }
    thread.postMessage('end');
    return `worker ${number} ${last} ${await new Promise((done) => thread.once('exit', done))}`;
  }

  async function child() {
    const cat = spawn('cat', [], {stdio: ['pipe', 'pipe', 'inherit']});
    let got = '';
    cat.stdout.on('data', (piece) => got += piece);
    for (let i = 0; i < 50; ++i) { cat.stdin.write(`line ${i}\n`); await sleep(20); }
    cat.stdin.end();
    const code = await new Promise((done) => cat.on('close', done));
    return `child ${code} ${crypto.createHash('md5').update(got).digest('hex')}`;
  }

  async function files() {
    for (let i = 0; i < 60; ++i) {
      await fs.promises.appendFile('log', `entry ${i}\n`);
      const text = await fs.promises.readFile('log', 'utf8');
      if (text.split('\n').length !== i + 2) throw new Error('the log is wrong');
      await sleep(10);
    }
    return 'files';
  }

  async function interval() {
    let count = 0, early = 0;
    const began = process.hrtime.bigint();
    await new Promise((done) => {
      const timer = setInterval(() => {
        ++count;
        if (Number(process.hrtime.bigint() - began) / 1e6 < count * 10 - 10) ++early;
        if (count === 120) { clearInterval(timer); done(); }
      }, 10);
    });
    return `interval ${count} ${early}`;
  }

  async function garbage() {
    let kept = [];
    for (let i = 0; i < 150; ++i) {
      kept.push(Array.from({length: 3000}, (_, k) => ({k, text: 'n' + k})));
      if (kept.length > 20) kept = kept.slice(10);
      await sleep(5);
    }
    return 'garbage ' + kept.at(-1).reduce((sum, each) => sum + each.k, 0);
  }

  server.listen(0, '127.0.0.1', async () => {
    const agent = new http.Agent({keepAlive: true});
    const {port} = server.address();
    const results = await Promise.all([client('a', agent, port), client('b', agent, port), client('c', agent, port),
      worker(1), worker(2), child(), files(), interval(), garbage()]);
    for (const each of results) console.log(each);
    agent.destroy();
    server.close();
  });
}
"""


def test(t):
    if not shutil.which("node"):
        raise Skip("node isn't installed")

    def prepare(folder):
        with open(os.path.join(folder, "program.js"), "w") as file:
            file.write(PROGRAM)
    # It appends to a file that it opens anew each time: what is done after the checkpoint stays done.
    same_as_undisturbed(t, ["node", "program.js"], prepare=prepare, at_once=True)

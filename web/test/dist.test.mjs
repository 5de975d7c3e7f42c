// The committed files are those that the sources build, and the sources make no HTML out of text.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from './harness.mjs';

const web = join(root, 'web');

test('dist is what the sources build, byte by byte', () => {
  const out = mkdtempSync(join(tmpdir(), 'trlw-dist-'));
  try {
    execFileSync(process.execPath, [join(web, 'node_modules/typescript/bin/tsc'), '-p', join(web, 'tsconfig.json')], { stdio: 'inherit' });
    execFileSync(process.execPath, [join(web, 'build.mjs'), out], { stdio: 'inherit' }); // checks the sizes, too
    const names = readdirSync(join(web, 'dist')).sort();
    assert.deepEqual(readdirSync(out).sort(), names);
    for (const name of names) assert.ok(readFileSync(join(out, name)).equals(readFileSync(join(web, 'dist', name))), `${name}: differs; run make web`);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
});

test('no source makes HTML or code out of text', () => {
  for (const f of readdirSync(join(web, 'src'), { recursive: true })) {
    if (!/\.tsx?$/.test(f)) continue;
    const text = readFileSync(join(web, 'src', f), 'utf8');
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|javascript:/, f);
  }
});

test('the built files make HTML or code out of text only where it is known', () => {
  const found = {};
  for (const f of readdirSync(join(web, 'dist')).filter((n) => /\.(js|html)$/.test(n))) {
    for (const [word] of readFileSync(join(web, 'dist', f), 'utf8').matchAll(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|\bon[a-z]+="|<script>/g)) (found[f] ??= {})[word] = (found[f]?.[word] ?? 0) + 1;
  }
  // Preact sets innerHTML for dangerouslySetInnerHTML, which no source uses; the policy of the page refuses it.
  assert.deepEqual(found, { 'vendor.js': { innerHTML: 3 } });
  for (const f of readdirSync(join(web, 'src'), { recursive: true })) if (/\.tsx?$/.test(f)) assert.doesNotMatch(readFileSync(join(web, 'src', f), 'utf8'), /dangerouslySetInnerHTML/, f);
});

test('the lock file names no place to download from', () => {
  assert.doesNotMatch(readFileSync(join(web, 'package-lock.json'), 'utf8'), /"resolved"/);
});

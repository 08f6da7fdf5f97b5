import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inspectorPage } from '../../src/service/routes/inspector.js';
import { MAIN } from '../cli/drs.js';
import { CHROMIUM, launchBrowser } from '../support/browser.js';
import { eventually } from '../support/eventually.js';
import { startService, type RunningService } from '../support/service.js';
import { axeSource, openInspector, PAGE, type OpenPage } from './browser.js';

/** `EDITS=10000 npx vitest run test/inspect/inspector.test.ts -t random` searches longer. */
const EDITS = Number(process.env['EDITS'] ?? 60);

/** Bytes. */
const MAX_PAGE = 600_000;

it('is one file, not too large, that names no other', () => {
  const page = readFileSync(PAGE, 'utf8');
  expect(statSync(PAGE).size).toBeLessThanOrEqual(MAX_PAGE);
  expect(page).toMatch(
    /content="default-src 'none'; script-src 'sha256-[\w+/=]+' 'wasm-unsafe-eval'; style-src 'sha256-/,
  );
  expect(page).not.toMatch(/<(?:script|link|img|iframe)[^>]+(?:src|href)="(?!data:)/);
  expect(page.match(/<script/g)).toHaveLength(2);
});

it('opens with a text that cannot end the element that it is in', () => {
  const page = inspectorPage('</script><script>alert(1)</script>');
  expect(page.match(/<script/g)).toHaveLength(2);
  expect(page).toContain('\\u003c/script>\\u003cscript>');
});

describe.skipIf(!existsSync(CHROMIUM))('in Chromium', () => {
  let browser: Browser;
  let folder: string;
  let service: RunningService;
  let open: OpenPage;
  const decisions = () => path.join(folder, 'decisions.jsonl');
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-inspector-'));
    [browser, service] = await Promise.all([
      launchBrowser(),
      startService({ INSPECTOR: '1', DECISION_LOG: decisions() }),
    ]);
    open = await openInspector(browser, { viewport: { width: 1280, height: 900 } });
  });
  afterAll(async () => {
    await Promise.all([browser.close(), service.stop()]);
    rmSync(folder, { recursive: true });
  });
  const headline = () => open.page.textContent('.verdict h2');
  const code = () => open.page.textContent('.verdict .code code');
  const failedLight = () =>
    open.page
      .getAttribute('.lights li.failed', 'class')
      .then(() => open.page.textContent('.lights li.failed .block'));
  const marked = async () =>
    (await open.page.locator('.step.failed .claims mark').allTextContents()).join('');

  it('shows an example for each light, and marks its cause', async () => {
    const found: unknown[] = [];
    for (const name of ['A', 'B', 'C', 'D', 'E', 'F'] as const) {
      await open.show(name);
      found.push([await failedLight(), await code(), (await marked()).slice(0, 20)]);
    }
    expect(found).toEqual([
      ['A Structure', 'MALFORMED_RECEIPT', '"exp": "tomorrow"'],
      ['B Linkage', 'CHAIN_BREAK', '"prev_dr_hash": "sha'],
      ['C Signatures', 'INVALID_SIGNATURE', expect.any(String)],
      ['D Policy', 'POLICY_VIOLATION', expect.stringContaining('"allowed_tools"')],
      ['E Time', 'EXPIRED', expect.stringMatching(/^"exp": \d+$/)],
      ['F Revocation', 'RECEIPT_REVOKED', '"drs_status_list_ind'],
    ]);
    await open.show('binding');
    expect(await headline()).toBe('Valid, but not this body');
    expect(await open.page.textContent('.difference .differs th')).toBe('≠ query');
    await open.show('long');
    expect([await headline(), await open.page.locator('.step').count()]).toEqual(['Valid', 17]);
  });

  it('judges each edit, and restores', async () => {
    await open.show('valid');
    expect(await headline()).toBe('Valid');
    await open.page.click('text=Claims of receipt 2');
    const claims = open.page.getByLabel('Claims of receipt 2');
    await claims.fill((await claims.inputValue()).replace('"max_cost_usd": 1', '"max_cost_usd": 19'));
    await eventually(async () => expect(await headline()).toBe('Refused'));
    expect(await code()).toBe('CHAIN_REFERENCE_MISMATCH');
    await open.page.click('text=Restore the original');
    await eventually(async () => expect(await headline()).toBe('Valid'));
    const what = async (label: string, value: string, expected: string) => {
      const field = open.page.getByLabel(label);
      await field.fill(value);
      await eventually(async () => expect(await code()).toBe(expected));
      await field.fill('');
      await eventually(async () => expect(await headline()).toBe('Valid'));
    };
    await what('the tool server were', 'https://other.example', 'TOOL_SERVER_MISMATCH');
    await what(
      'only these principals were trusted',
      'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp',
      'UNTRUSTED_ROOT',
    );
    await open.page.getByLabel('it were checked at').fill('2020-01-01T00:00:00');
    await eventually(async () => expect(await code()).toBe('NOT_YET_VALID'));
    await open.page.click('.what-if button:has-text("Now")');
    await open.page.getByLabel('revoked (status list index 1042)').check();
    await eventually(async () => expect(await code()).toBe('RECEIPT_REVOKED'));
  });

  it(`shows whatever random edits make of it: ${EDITS}`, async () => {
    await open.show('valid');
    const made = await open.page.evaluate(`(async () => {
      let seed = 35;
      const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
      const pieces = ['', '"', '{', '}', ',', '.', 'null', '-1', '1e999', '\\u0000', '</script>', 'a'];
      const seen = new Set();
      for (let left = ${EDITS}; left > 0; left--) {
        const areas = [...document.querySelectorAll('.editor textarea')];
        const area = areas[random(areas.length)];
        const at = random(area.value.length + 1);
        const cut = area.value.slice(0, at) + pieces[random(pieces.length)] + area.value.slice(at + random(3));
        area.value = cut;
        area.dispatchEvent(new Event('input', { bubbles: true }));
        // Effects run after the next frame.
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
        seen.add(document.querySelector('.verdict .code code')?.textContent ?? document.querySelector('.recognised').textContent);
        area.dispatchEvent(new Event('blur'));
        if (left % 7 === 0) document.querySelector('.foot button')?.click();
        if (document.querySelector('main.empty') !== null) {
          document.querySelector('.under button')?.click();
          await new Promise((done) => setTimeout(done));
          document.querySelector('.first button').click();
          await new Promise((done) => setTimeout(done, 20));
        }
      }
      return seen.size;
    })()`);
    expect(made).toBeGreaterThan(3);
    expect(open.errors).toEqual([]);
    await open.page.reload();
    await open.page.waitForSelector('main');
  });

  it('lets a call leave it only without its signature, unless one insists', async () => {
    await open.show('valid');
    const form = open.page.locator('.out .copy');
    const signature = /"invocation":"[\w-]+\.[\w-]+\.([\w-]+)"/;
    const signatureIn = async () => signature.exec(await form.inputValue())?.[1];
    await open.page.click('.out button:has-text("curl")');
    expect(await signatureIn()).toBe('A'.repeat(86));
    await open.page.click('.out button:has-text("Bug report")');
    expect(await form.inputValue()).toContain('A'.repeat(86));
    await open.page.click('.out button:has-text("curl")');
    await open.page.getByLabel('with the signature of the call').check();
    expect(await signatureIn()).not.toBe('A'.repeat(86));
    await open.page.click('.out button:has-text("Link")');
    const link = await form.inputValue();
    const other = await openInspector(browser, { url: link });
    await other.page.waitForSelector('.verdict');
    expect(await other.page.textContent('.verdict h2')).toBe('Valid');
    expect(other.page.url()).not.toContain('#');
    await other.close();
  });

  it('uses a status list that is pasted beside a bundle', async () => {
    await open.show('valid');
    const bits = Buffer.alloc(16_384);
    // Bit 1042, the most significant one first.
    bits[130] = 0x20;
    const encodedList = `u${gzipSync(bits).toString('base64url')}`;
    const credentialSubject = { type: 'BitstringStatusList', statusPurpose: 'revocation', encodedList };
    await open.paste(
      JSON.stringify({ type: ['BitstringStatusListCredential'], issuer: 'did:key:z', credentialSubject }),
    );
    await eventually(async () => expect(await code()).toBe('RECEIPT_REVOKED'));
    expect(await open.page.textContent('.verdict .message')).toContain('the remote status list');
    await open.page.reload();
    await open.page.waitForSelector('main');
  });

  it('shows texts of a bundle as texts', async () => {
    await open.show('valid');
    const input = await open.page.inputValue('.input textarea');
    const bundle = JSON.parse(input) as { receipts: string[]; body: Record<string, unknown> };
    const evil = '<img src=x onerror="window.hacked=1">';
    const segments = (bundle.receipts[0] ?? '').split('.');
    const claims = JSON.parse(Buffer.from(segments[1] ?? '', 'base64url').toString()) as Record<
      string,
      unknown
    >;
    claims['policy'] = { allowed_tools: [evil], [evil]: evil };
    claims['cmd'] = `/${evil}`;
    claims['iss'] = evil;
    segments[1] = Buffer.from(JSON.stringify(claims)).toString('base64url');
    const text = JSON.stringify({
      ...bundle,
      receipts: [segments.join('.'), ...bundle.receipts.slice(1)],
      body: { [evil]: evil },
    });
    await open.paste(text);
    await eventually(async () => expect(await code()).toBe('CHAIN_BREAK'));
    expect(await open.page.locator('.chain img, .what-if img').count()).toBe(0);
    expect(await open.page.locator('.chip', { hasText: evil }).count()).toBe(2);
    expect(await open.page.evaluate('window.hacked')).toBe(undefined);
  });

  it('shows the cause of a refused call from its line in the decision log', async () => {
    await open.show('E');
    const bundle = await open.page.inputValue('.input textarea');
    const answer = await service.post('/verify', bundle);
    const refusal = (await answer.json()) as { error: { code: string } };
    const line = await eventually(() => {
      const [first = ''] = readFileSync(decisions(), 'utf8').split('\n');
      expect(first).not.toBe('');
      return first;
    });
    await open.paste(line);
    await eventually(async () =>
      expect(await open.page.textContent('.recognised')).toBe('A line of the decision log'),
    );
    expect([await code(), await failedLight()]).toEqual([refusal.error.code, 'E Time']);
    await open.paste(JSON.stringify(refusal));
    await eventually(async () =>
      expect(await open.page.textContent('.recognised')).toBe('A refusal, as the caller got it'),
    );
    expect(await code()).toBe('EXPIRED');
  });

  it('has asked for nothing but itself, and cannot', async () => {
    expect(open.errors).toEqual([]);
    expect([...new Set(open.asked)]).toEqual([open.page.url()]);
    const blocked = await open.page.evaluate(`(async () => {
      const blocked = [];
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => blocked.push(effectiveDirective));
      await fetch('${service.url}/healthz').catch(() => undefined);
      navigator.sendBeacon('${service.url}/verify', 'x');
      try { new WebSocket('ws://127.0.0.1:1/'); } catch {}
      try { new EventSource('${service.url}/'); } catch {}
      const image = new Image(); image.src = '${service.url}/x.png';
      const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script);
      const frame = document.createElement('iframe'); frame.src = '${service.url}/'; document.body.append(frame);
      for (let left = 100; left > 0 && blocked.length < 7; left--) await new Promise((done) => setTimeout(done, 20));
      return [blocked.sort(), window.ran];
    })()`);
    expect(blocked).toEqual([
      ['connect-src', 'connect-src', 'connect-src', 'connect-src', 'frame-src', 'img-src', 'script-src-elem'],
      undefined,
    ]);
    // Nothing of it has reached the service.
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).not.toMatch(/drs_http_requests_total\{endpoint="(healthz|other)"/);
    expect([...new Set(open.asked)]).toEqual([open.page.url()]);
  });

  it.each([
    { name: 'empty', width: 1280, colorScheme: 'light' },
    { name: 'valid', width: 1280, colorScheme: 'dark' },
    { name: 'D', width: 390, colorScheme: 'light' },
  ] as const)('axe finds nothing: $name, $width, $colorScheme', async ({ name, width, colorScheme }) => {
    const other = await openInspector(browser, {
      ...{ viewport: { width, height: 844 }, colorScheme, reducedMotion: 'reduce', bypassCSP: true },
    });
    if (name !== 'empty') await other.show(name);
    await other.page.evaluate(axeSource());
    const problems = `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html.slice(0, 160))]))`;
    const found: unknown[] = [await other.page.evaluate(problems)];
    if (name === 'valid') {
      await other.page.click('text=In plain words');
      found.push(await other.page.evaluate(problems));
    }
    expect(found.flat()).toEqual([]);
    // Nothing is wider than the window.
    expect(await other.page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    await other.close();
  });

  it('is served at /inspect of a service that says so', async () => {
    const response = await fetch(`${service.url}/inspect`);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "frame-ancestors 'none'",
      'cache-control': 'no-store',
    });
    expect(await response.text()).toBe(inspectorPage());
    const other = await openInspector(browser, { url: `${service.url}/inspect` });
    await other.show('valid');
    expect([await other.page.textContent('.verdict h2'), other.asked]).toEqual([
      'Valid',
      [`${service.url}/inspect`],
    ]);
    await other.close();
  });

  it('is served by `drs-verify inspect` to whoever knows its address', async () => {
    await open.show('D');
    const bundle = await open.page.inputValue('.input textarea');
    const [file, opened, opener] = ['bundle.json', 'opened', 'xdg-open'].map((name) =>
      path.join(folder, name),
    ) as [string, string, string];
    writeFileSync(file, bundle);
    writeFileSync(opener, `#!/bin/sh\nprintf %s "$1" > '${opened}'\n`);
    chmodSync(opener, 0o755);
    const child = spawn(process.execPath, [MAIN, 'inspect', file], {
      env: { PATH: `${folder}:/usr/bin:/bin` },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/$/);
      await eventually(() => expect(readFileSync(opened, 'utf8')).toBe(url));
      const statusOf = async (address: string, method = 'GET') => (await fetch(address, { method })).status;
      const { origin, port } = new URL(url);
      expect(
        await Promise.all([
          statusOf(`${origin}/`),
          statusOf(url, 'POST'),
          statusOf(url.replace('127.0.0.1', 'localhost').replace(/:\d+/, `:${port}`)).catch(() => 404),
        ]),
      ).toEqual([404, 404, 404]);
      const other = await openInspector(browser, { url });
      await other.page.waitForSelector('.verdict');
      expect([await other.page.textContent('.verdict .code code'), other.asked]).toEqual([
        'POLICY_VIOLATION',
        [url],
      ]);
      await other.close();
    } finally {
      child.kill();
      await once(child, 'exit');
    }
  });
});

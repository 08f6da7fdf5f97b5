import { generateKeyPairSync } from 'node:crypto';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launchBrowser } from '../support/browser.js';
import { eventually } from '../support/eventually.js';
import { needs } from '../support/programs.js';
import { axeSource } from '../inspect/browser.js';
import { startGate, type RunningGate } from './gate.js';

type Algorithm = 'Ed25519' | 'P-256' | 'RSA';
const COSE = { Ed25519: -8, 'P-256': -7, RSA: -257 };

/** A passkey that no page of the gate has made. */
const madeElsewhere = (() => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x } = publicKey.export({ format: 'jwk' });
  const id = Buffer.from('made-elsewhere-1');
  const approver = { id: id.toString('base64url'), key: { kty: 'OKP', crv: 'Ed25519', x } };
  return { privateKey, id, approver };
})();

/** Somebody with a device: a browser, and an authenticator in it. */
interface Person {
  readonly page: Page;
  readonly line: string;
  readonly devtools: CDPSession;
  readonly authenticatorId: string;
}

describe('in Chromium', needs('chromium'), () => {
  let browser: Browser;
  let gate: RunningGate;
  /** Each error of a page, what its policy stopped, and each address that is not the gate's. */
  const faults: string[] = [];
  const people = {} as Record<'alice' | 'bob' | 'carol', Person>;

  /** @param algorithm the only one that the authenticator has; by default it takes what the page likes best */
  async function openDevice(algorithm?: Algorithm) {
    const context = await browser.newContext({
      viewport: { width: 1000, height: 1200 },
      reducedMotion: 'reduce',
    });
    await context.addInitScript(
      `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => console.error('policy', violatedDirective, blockedURI));`,
    );
    if (algorithm !== undefined)
      await context.addInitScript(`{
        const create = CredentialsContainer.prototype.create;
        CredentialsContainer.prototype.create = function (options) {
          const { publicKey } = options;
          publicKey.pubKeyCredParams = publicKey.pubKeyCredParams.filter(({ alg }) => alg === ${COSE[algorithm]});
          return create.call(this, options);
        };
      }`);
    const page = await context.newPage();
    page.on('pageerror', ({ message }) => faults.push(message));
    page.on('console', (message) => {
      const text = message.text();
      // The gate's refusals, which are asked for here.
      if (message.type() === 'error' && !/the server responded with a status of 40/.test(text))
        faults.push(text);
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(gate.origin)) faults.push(request.url());
    });
    const devtools = await context.newCDPSession(page);
    await devtools.send('WebAuthn.enable');
    const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    return { page, devtools, authenticatorId };
  }

  async function register(name: string, algorithm?: Algorithm): Promise<Person> {
    const device = await openDevice(algorithm);
    await device.page.goto(`${gate.origin}/approve/register`);
    await device.page.getByLabel('Your name').fill(name);
    await device.page.click('button:has-text("Make a passkey")');
    const line = await device.page.getByLabel('The line for approvers').inputValue();
    return { ...device, line };
  }

  beforeAll(async () => {
    [browser, gate] = await Promise.all([
      launchBrowser(),
      startGate(['alice', 'bob', 'carol', 'dora', 'both', 'private']),
    ]);
    people.alice = await register('Alice');
    people.bob = await register('Bob', 'P-256');
    people.carol = await register('Carol', 'RSA');
    const [alice, bob, carol] = [people.alice.line, people.bob.line, people.carol.line];
    await gate.trust({
      alice: { lines: [alice] },
      bob: { lines: [bob] },
      carol: { lines: [carol] },
      dora: { lines: [JSON.stringify({ name: 'Dora', ...madeElsewhere.approver, origin: gate.origin })] },
      both: { needed: 2, lines: [alice, bob] },
      private: { private: true, lines: [alice] },
    });
  });
  afterAll(async () => {
    await browser.close();
    await gate.close();
  });

  const alerts = (page: Page, expected: RegExp) =>
    eventually(async () => expect(await page.textContent('[role=alert]')).toMatch(expected));

  /** What the page gets instead of the gate's answer, as whoever stands between would send it. */
  const tamper = (page: Page, change: (text: string) => string) =>
    page.route('**/statement', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: change(await response.text()) });
    });

  let amount = 100;
  /** A call that nobody has made yet. */
  const newCall = async (principal = 'alice', more: object = {}) => {
    const args = { estimated_cost_usd: ++amount, to: 'DE02 1203 0000 0000 2020 51', ...more };
    const again = async () => (await gate.call(principal, args)).code;
    return { again, ...(await gate.call(principal, args)) };
  };
  const yes = (page: Page) => page.click('text=Yes, this call');
  const headline = (page: Page) => page.textContent('.answer h2');
  const answers = async (page: Page, expected: string) => {
    await eventually(async () => expect(await headline(page)).toBe(expected));
  };

  it('registers passkeys of each algorithm, as an operator needs them', () => {
    const lines = Object.values(people).map(
      ({ line }) => JSON.parse(line) as { key: Record<string, string>; origin: string },
    );
    expect(lines.map(({ key }) => Object.keys(key).join())).toEqual(['kty,crv,x', 'kty,crv,x,y', 'kty,n,e']);
    expect(Object.keys(lines[0] ?? {})).toEqual(['name', 'id', 'key', 'origin']);
    expect(new Set(lines.map(({ origin }) => origin))).toEqual(new Set([gate.origin]));
  });

  it.each(['alice', 'bob', 'carol'] as const)('takes the yes of %s to one call, once', async (name) => {
    const { page } = people[name];
    const { again, url, code } = await newCall(name);
    expect(code).toBe('APPROVAL_REQUIRED');
    await page.goto(url);
    await answers(page, 'Do you say yes to this call?');
    expect(await page.textContent('.wish h2')).toBe(
      `An agent of ${name}@example.com wants to call transfer on https://bank.example/mcp`,
    );
    expect(await page.textContent('.wish > p')).toContain(`${amount} US dollars, as the agent says`);
    expect(await page.textContent('.words-card')).toContain('make calls that cost at most 500 US dollars');
    await yes(page);
    await answers(page, 'You said yes');
    expect(await page.textContent('.answer')).toContain('once, within ten minutes');
    expect([await again(), await again()]).toEqual(['allow', 'APPROVAL_REQUIRED']);
  });

  it('takes a no, without a passkey, also after a yes', async () => {
    const { page } = people.alice;
    const first = await newCall();
    await page.goto(first.url);
    await page.click('button:text-is("No")');
    await answers(page, 'You said no');
    expect(await first.again()).toBe('APPROVAL_DENIED');
    expect(await page.locator('.buttons button').count()).toBe(0);
    const second = await newCall();
    await page.goto(second.url);
    await yes(page);
    await page.click('text=No, take it back');
    await answers(page, 'You said no');
    expect(await second.again()).toBe('APPROVAL_DENIED');
    await page.reload();
    await answers(page, 'Somebody said no');
  });

  it('takes two persons where it needs them', async () => {
    const { alice, bob } = people;
    const { again, url } = await newCall('both');
    await alice.page.goto(url);
    await answers(alice.page, 'Do you say yes to this call?');
    expect(await alice.page.textContent('.answer')).toContain('Still missing: 2 persons,');
    await yes(alice.page);
    await answers(alice.page, 'You said yes');
    expect(await alice.page.textContent('.answer')).toContain('Still missing: 1 person,');
    expect(await again()).toBe('APPROVAL_REQUIRED');
    // Hers alone is no second one.
    await alice.page.reload();
    await yes(alice.page);
    await alerts(alice.page, /^No passkey signed/);
    await bob.page.goto(url);
    await answers(bob.page, 'Do you say yes to this call?');
    expect(await bob.page.textContent('.answer')).toContain('Yes was said by Alice.');
    await yes(bob.page);
    await answers(bob.page, 'You said yes');
    expect(await bob.page.textContent('.answer')).toContain('once, within ten minutes');
    expect(await again()).toBe('allow');
  });

  it('asks for no yes to what it cannot show, and signs what it shows', async () => {
    const { page } = people.carol;
    const { again, url } = await newCall('carol');
    // In JSON, the quotes of the statement are escaped.
    for (const [from, to] of [
      ['"statement":"{', '"statement":"{ '],
      ['\\"command\\"', '\\"agent\\":\\"x\\",\\"command\\"'],
      ['\\"v\\":1', '\\"v\\":1,\\"x\\":1'],
      [url.slice(-22), 'A'.repeat(22)],
      ['"iss":"did:key:z', '"iss":"did:key:Z'],
    ] as const) {
      await tamper(page, (text) => {
        expect(text).toContain(from);
        return text.replace(from, to);
      });
      await page.goto(url);
      await alerts(page, /^This page asks for no yes/);
      expect(await page.locator('text=Yes, this call').count()).toBe(0);
    }
    // Somebody in between shows another amount: it is that one which is signed.
    await tamper(page, (text) => text.replace(`estimated_cost_usd\\":${amount}`, 'estimated_cost_usd\\":1'));
    await page.goto(url);
    await answers(page, 'Do you say yes to this call?');
    expect(await page.textContent('.wish > p')).toContain('1 US dollars');
    await yes(page);
    await alerts(page, /did not take it: challenge is /);
    expect(await again()).toBe('APPROVAL_REQUIRED');
    await page.unrouteAll();
  });

  it('shows a private question only to whoever can answer it', async () => {
    const { alice, bob } = people;
    const { again, url } = await newCall('private');
    await bob.page.goto(url);
    await bob.page.click('text=Show it with my passkey');
    await alerts(bob.page, /^No passkey signed/);
    expect(await bob.page.textContent('main')).not.toContain('DE02');
    await alice.page.goto(url);
    await alice.page.click('text=Show it with my passkey');
    await answers(alice.page, 'Do you say yes to this call?');
    expect(await again()).toBe('APPROVAL_REQUIRED');
    await yes(alice.page);
    await answers(alice.page, 'You said yes');
    expect(await again()).toBe('allow');
  });

  it('says what to do where there is nothing to answer', async () => {
    const { page } = people.bob;
    await page.goto(`${gate.origin}/approve/${'A'.repeat(22)}`);
    await alerts(page, /^There is no such question/);
    await page.goto((await newCall('alice')).url);
    await yes(page);
    await alerts(page, /on this device/);
    await tamper(page, (text) => text.replace(/"approvers":\[.*?\]/, '"approvers":[]'));
    await page.reload();
    await answers(page, 'Do you say yes to this call?');
    expect(await page.textContent('.answer')).toContain(`No passkey can say yes at ${gate.origin}`);
    expect(await page.isDisabled('text=Yes, this call')).toBe(true);
    await tamper(page, (text) => text.replace(/"ends":\d+/, '"ends":1'));
    await page.reload();
    await answers(page, 'This question is over');
    await page.unrouteAll();
  });

  it('says yes with a passkey that was made elsewhere, with the keyboard alone', async () => {
    const { page, devtools, authenticatorId } = await openDevice();
    const { privateKey, id } = madeElsewhere;
    await devtools.send('WebAuthn.addCredential', {
      authenticatorId,
      credential: {
        credentialId: id.toString('base64'),
        isResidentCredential: false,
        rpId: 'localhost',
        privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
        signCount: 7,
      },
    });
    const { again, url } = await newCall('dora');
    await page.goto(url);
    await answers(page, 'Do you say yes to this call?');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Yes, this call');
    await page.keyboard.press('Enter');
    await answers(page, 'You said yes');
    expect(await again()).toBe('allow');
    await page.context().close();
  });

  const TRICKS = {
    'to\u202e': 'pаypal.example\u200b\u200b',
    note: `${'x'.repeat(450)}\u2066 and 99 more`,
    html: '<img src=x onerror=alert(1)><script>alert(1)</script>',
    amounts: [1234567.5, '1000000', '৪00', -5, 1e21],
    nested: { a: { b: [] }, none: null, yes: true, lines: 'one\ntwo\tthree' },
    many: Array.from({ length: 30 }, (_, at) => at),
  };

  it('marks what hides, folds what is long, and loses nothing', async () => {
    const { page } = people.alice;
    await page.goto((await newCall('dora', TRICKS)).url);
    await page.waitForSelector('.members');
    expect(await page.locator('.wish mark').allTextContents()).toEqual([
      '৪U+09EA',
      'U+202E',
      'аU+0430',
      'U+200B ×2',
    ]);
    expect(await page.textContent('.answer')).toContain('Marked above (5)');
    expect(await page.textContent('.answer')).toContain('Folded above, since they are long: 2.');
    expect(await page.textContent('.wish')).toContain(TRICKS.html);
    expect(await page.textContent('.wish')).not.toContain('99 more');
    // No quotation mark where it is only cut.
    expect(await page.evaluate(`getComputedStyle(document.querySelector('q.cut'), '::after').content`)).toBe(
      '"…"',
    );
    await page.click('text=Show 63 more characters');
    await page.click('text=Show 10 more of 30');
    expect(await page.textContent('.wish')).toContain('U+2066 and 99 more');
    expect(await page.locator('.wish button').count()).toBe(0);
    // Thousands are apart only for the eye.
    const amounts = await page.locator('.members .amount').allTextContents();
    expect(amounts).toEqual(expect.arrayContaining(['1234567.5', '1000000', '-5', '1e+21', '29']));
    const [apart] = await page
      .locator('.amount')
      .filter({ hasText: '1234567.5' })
      .locator('span')
      .allTextContents();
    expect(apart).toBe('1');
  });

  it('axe finds nothing, and nothing is wider than a phone', async () => {
    const { page } = people.alice;
    const look = async (what: string) => {
      await page.evaluate(axeSource());
      const problems = `axe.run({ resultTypes: ['violations'], preload: false }).then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html.slice(0, 160))]))`;
      expect([
        what,
        await page.evaluate(problems),
        await page.evaluate('document.documentElement.scrollWidth'),
      ]).toEqual([what, [], 390]);
    };
    await page.setViewportSize({ width: 390, height: 844 });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto((await newCall('alice', TRICKS)).url);
      await answers(page, 'Do you say yes to this call?');
      await page.click('text=Show 63 more characters');
      await look(`a question, ${colorScheme}`);
      // Both answers weigh the same.
      const [left, right] =
        (await page.evaluate(`[...document.querySelectorAll('.buttons button')].map((button) => {
        const { width, height } = button.getBoundingClientRect();
        const { backgroundColor, color, font, border } = getComputedStyle(button);
        return [width, height, backgroundColor, color, font, border];
      })`)) as unknown[];
      expect(left).toBeDefined();
      expect(left).toEqual(right);
      await yes(page);
      await answers(page, 'You said yes');
      await look(`a yes, ${colorScheme}`);
      await page.goto(`${gate.origin}/approve/${'A'.repeat(22)}`);
      await page.waitForSelector('.bad');
      await look(`no question, ${colorScheme}`);
      await page.goto(`${gate.origin}/approve/register`);
      await page.getByLabel('Your name').fill('Alice');
      await page.click('button:has-text("Make a passkey")');
      await page.waitForSelector('.copy');
      await look(`registered, ${colorScheme}`);
    }
  });

  it('loads nothing else, and its policy stops nothing of it', async () => {
    expect(faults).toEqual([]);
    const page = await (await people.bob.page.request.get(`${gate.origin}/approve/register`)).text();
    expect(page).not.toMatch(/style=|<style|<script(?![^>]* src="assets\/[^>]* integrity="sha384-)/);
    expect(page).toMatch(/<link rel="stylesheet" href="assets\/[^>]* integrity="sha384-/);
    const blocked = await people.bob.page.evaluate(`(async () => {
      const blocked = [];
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => blocked.push(effectiveDirective));
      await fetch('http://127.0.0.1:1/').catch(() => undefined);
      const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script);
      const style = document.createElement('style'); style.textContent = 'body { color: red }'; document.body.append(style);
      for (let left = 500; left > 0 && blocked.length < 3; left--) await new Promise((done) => setTimeout(done, 20));
      return [[...new Set(blocked)].sort(), window.ran];
    })()`);
    expect(blocked).toEqual([['connect-src', 'script-src-elem', 'style-src-elem'], undefined]);
  });
});

import type { Browser, CDPSession, Page } from 'playwright-core';

export type Algorithm = 'Ed25519' | 'P-256' | 'RSA';
const COSE = { Ed25519: -8, 'P-256': -7, RSA: -257 };

/** A browser of its own, with an authenticator in it. */
export interface Device {
  readonly page: Page;
  readonly devtools: CDPSession;
  readonly authenticatorId: string;
}

/** Somebody with a device, who has a passkey on it. */
export interface Person extends Device {
  /** The line that an operator puts into `approvers`. */
  readonly line: string;
}

/** @param algorithm the only one that the authenticator has; by default it takes what the page likes best */
export async function openDevice(browser: Browser, algorithm?: Algorithm): Promise<Device> {
  const context = await browser.newContext({
    viewport: { width: 1000, height: 1200 },
    reducedMotion: 'reduce',
  });
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

/** Makes a passkey on the page for it. */
export async function register(device: Device, origin: string, name: string): Promise<Person> {
  const { page } = device;
  await page.goto(`${origin}/approve/register`);
  await page.getByLabel('Your name').fill(name);
  await page.click('button:has-text("Make a passkey")');
  return { ...device, line: await page.getByLabel('The line for approvers').inputValue() };
}

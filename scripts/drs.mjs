#!/usr/bin/env node
// The `drs` command. In a clone, it first updates the build, but installs nothing: a service must start without a registry. An
// installed package has no set-up script.
import { existsSync } from 'node:fs';

// These signals must not end a service that is starting. Nothing is open yet, so nothing is to be done about them.
if (process.argv[2] === 'serve')
  for (const signal of ['SIGUSR1', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => undefined);
else if (process.argv[2] === 'guard') process.on('SIGUSR1', () => undefined);

const setup = new URL('setup.mjs', import.meta.url);
if (existsSync(setup)) await import(`${setup.href}?installed`);
await import(new URL('../dist/cli/main.js', import.meta.url).href);

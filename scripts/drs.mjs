#!/usr/bin/env node
// The `drs` command. In a clone, it first updates the build. An installed package has no set-up script.
import { existsSync } from 'node:fs';

const setup = new URL('setup.mjs', import.meta.url);
if (existsSync(setup)) await import(setup.href);
await import(new URL('../dist/cli/main.js', import.meta.url).href);

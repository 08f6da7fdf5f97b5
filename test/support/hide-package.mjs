// For `node --import`: makes the packages that HIDDEN_PACKAGE names, separated by commas, look as if they were not
// installed, or, where HIDDEN_PACKAGE_SAYS is set, as if they did not load.
import { register } from 'node:module';
import { env } from 'node:process';

const names = JSON.stringify((env['HIDDEN_PACKAGE'] ?? '').split(','));
const says = JSON.stringify(env['HIDDEN_PACKAGE_SAYS'] ?? '');
const hook = `
export function resolve(specifier, context, next) {
  if (!${names}.includes(specifier)) return next(specifier, context);
  if (${says} !== '')
    return { url: 'data:text/javascript,export default 0;throw new Error(' + encodeURIComponent(JSON.stringify(${says})) + ')', shortCircuit: true };
  throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

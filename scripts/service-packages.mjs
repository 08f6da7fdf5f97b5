// The optional peers that the service loads where they are installed. For a clone and the image they are dev packages, so
// that the lockfile binds them; a user of the library does not get them.
export const SERVICE_PACKAGES = ['@grpc/grpc-js', 'protobufjs', 'redis', 'uWebSockets.js'];

/**
 * The manifest of a project that runs the service: its dev packages are those that the service loads.
 *
 * @template {{ dependencies?: Record<string, string>, devDependencies?: Record<string, string> }} Manifest
 * @param {Manifest} manifest of this package, or its entry in the lockfile
 * @returns {Omit<Manifest, 'devDependencies'> & { dependencies: Record<string, string> }}
 */
export function serviceManifest({ devDependencies = {}, ...manifest }) {
  /** @type {Record<string, string>} */
  const dependencies = { ...manifest.dependencies };
  for (const name of SERVICE_PACKAGES) {
    const version = devDependencies[name];
    if (version === undefined) throw new Error(`package.json: ${name} is not in devDependencies`);
    dependencies[name] = version;
  }
  return { ...manifest, dependencies };
}

/**
 * What npm installs for a manifest.
 *
 * @param {{ dependencies?: Record<string, string> }} manifest
 * @param {Record<string, Locked>} packages of the lockfile, by their paths
 * @returns {string[]} the paths of its packages and of theirs
 *
 * @typedef {Record<'dependencies' | 'optionalDependencies', Record<string, string> | undefined>} Locked
 */
export function installedFor({ dependencies = {} }, packages) {
  /** @type {Set<string>} */
  const found = new Set();
  /** @param {string} from @param {string[]} names */
  const visit = (from, names) => {
    for (const name of names) {
      // As Node looks for it: beside `from`, then further up.
      let place = from;
      while (place !== '' && !(`${place}/node_modules/${name}` in packages))
        place = place.slice(0, Math.max(place.lastIndexOf('/node_modules/'), 0));
      const at = `${place}/node_modules/${name}`.replace(/^\//, '');
      const entry = packages[at];
      if (entry === undefined || found.has(at)) continue;
      found.add(at);
      visit(at, Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }));
    }
  };
  visit('', Object.keys(dependencies));
  return [...found].sort();
}

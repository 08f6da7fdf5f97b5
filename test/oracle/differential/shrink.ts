import type { Json, JsonObject } from '../json.js';
import { member } from '../json.js';
import { editAt, setMember, type Edit, type Link, type Path, type Recipe } from '../generator/recipe.js';
import {
  expectedOfClient,
  expectedOfLibrary,
  expectedOfService,
  toRequest,
  type Request,
  type Revoked,
  type Step,
} from './request.js';
import type { Difference } from './run.js';
import { openListHost, openTarget, Services, type CreateVerifier } from './targets.js';

/** Replays steps with a new target, one after the other. @returns the first answer that differs, or `undefined` */
export async function replay(
  steps: readonly Step[],
  { target: kind, world }: Pick<Difference, 'target' | 'world'>,
  createVerifier: CreateVerifier,
): Promise<Difference | undefined> {
  const host = await openListHost(world);
  const services = new Services();
  const target = await openTarget(kind, world, { listUrl: host.url, createVerifier, services });
  const local = new Set<Revoked>();
  try {
    for (const [at, step] of steps.entries()) {
      if (step.kind === 'revoke') {
        await target.revoke(step.target);
        local.add(step.target);
        continue;
      }
      const expect =
        kind.client === true ? expectedOfClient : kind.service ? expectedOfService : expectedOfLibrary;
      const expected = expect(step.request, world.settings, {
        remote: world.remote,
        local,
        lists: world.lists ?? {},
      });
      const actual = await target.ask(step.request);
      if (actual === expected) continue;
      return { target: kind, world, request: step.request, expected, actual, steps: steps.slice(0, at + 1) };
    }
    return undefined;
  } finally {
    await target.close();
    await services.close();
    await host.close();
  }
}

const MAX_ATTEMPTS = 400;
const MAX_MILLISECONDS = 15_000;

/** Finds a smaller case with the same wrong answer. @returns the case itself if there is none (it depends on timing) */
export async function shrink(difference: Difference, createVerifier: CreateVerifier): Promise<Difference> {
  const name = (line: string) => line.split(' ')[0];
  let attempts = 0;
  const until = Date.now() + MAX_MILLISECONDS;
  let best = difference;
  const attempt = async (steps: readonly Step[]): Promise<boolean> => {
    if (attempts++ >= MAX_ATTEMPTS || Date.now() > until) return false;
    const found = await replay(steps, difference, createVerifier);
    const same =
      found !== undefined &&
      name(found.actual) === name(difference.actual) &&
      name(found.expected) === name(difference.expected);
    if (same) best = found;
    return same;
  };

  const last: Step = { kind: 'verify', request: difference.request };
  if (!(await attempt([last])) && !(await attempt([last, last])) && !(await attempt(difference.steps)))
    return difference;
  // Try to leave out halves of the steps, then quarters, down to single steps.
  for (
    let size = Math.ceil(best.steps.length / 2);
    size >= 1 && best.steps.length > 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  )
    for (let from = 0; from < best.steps.length;) {
      const rest = best.steps.filter((_, at) => at < from || at >= from + size);
      if (rest.length === 0 || !(await attempt(rest))) from += size;
    }
  for (let smaller = true; smaller;) {
    smaller = false;
    for (const [at, step] of best.steps.entries())
      for (const request of step.kind === 'verify' ? simpler(step.request) : [])
        if (!smaller)
          smaller = await attempt(
            best.steps.map((other) =>
              other === step || best.steps.indexOf(other) === at ? { kind: 'verify', request } : other,
            ),
          );
  }
  return best;
}

/** Makes requests from which something was left out. */
function* simpler(request: Request): Generator<Request> {
  const { recipe, channel, now, details } = request;
  if (recipe === undefined) return;
  const { body, ...bare } = recipe;
  const remake = (other: Recipe, more = {}) =>
    toRequest(other, { channel, now, ...(details !== undefined && { details }), ...more });
  if (body !== undefined) yield remake(bare);
  if (details !== undefined) yield toRequest(recipe, { channel, now });
  for (const edit of recipe.edits)
    yield remake({ ...recipe, edits: recipe.edits.filter((other) => other !== edit) });
  for (let at = 1; at < recipe.links.length; at++) yield remake(withoutLink(recipe, at));
  for (const path of pathsOf(recipe.call, 'args'))
    yield remake({ ...recipe, call: without(recipe.call, path) });
  for (const [at, link] of recipe.links.entries())
    for (const path of [...pathsOf(link, 'policy'), ['drs_status_list_index'], ['drs_root_type']])
      if (path.length > 1 || member(link.claims, path[0] as string) !== undefined)
        yield remake({
          ...recipe,
          links: recipe.links.map((other, place) => (place === at ? without(link, path) : other)),
        });
}

function pathsOf(link: Link, name: string): Path[] {
  const object = member(link.claims, name);
  if (object?.kind !== 'object') return [];
  return object.members.flatMap(([key, value]: readonly [string, Json]) => [
    [name, key],
    ...(value.kind === 'array' ? value.items.map((_, at) => [name, key, at]) : []),
  ]);
}

const without = (link: Link, path: Path): Link => ({
  ...link,
  claims: editAt(link.claims, path, undefined, false) as JsonObject,
});

/** Removes a receipt that is not the root. The receipt before it then delegates to the audience of the removed one. */
function withoutLink(recipe: Recipe, at: number): Recipe {
  const audience = recipe.links[at] && member(recipe.links[at].claims, 'aud');
  const links = recipe.links.flatMap((link, place) => {
    if (place === at) return [];
    if (place !== at - 1 || audience === undefined) return [link];
    return [{ ...link, claims: setMember(link.claims, 'aud', audience) }];
  });
  const edits = recipe.edits.flatMap((edit): Edit[] => {
    if (!('at' in edit) || edit.at === 'invocation' || edit.at < at) return [edit];
    return edit.at === at ? [] : [{ ...edit, at: edit.at - 1 }];
  });
  return { ...recipe, links, edits };
}

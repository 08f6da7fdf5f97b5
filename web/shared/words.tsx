import { describePolicy, policyInForce } from '../../src/issue/plain-words.js';
import { isJsonObject, type JsonObject } from '../../src/protocol/json.js';
import { readPolicy } from '../../src/protocol/policy.js';
import { Marked } from './marked.js';

/**
 * What a chain allows, as items of a list.
 *
 * @param props.receipts the claims of each receipt, root first
 */
export function PolicyWords({ receipts }: { readonly receipts: readonly JsonObject[] }) {
  const policies = receipts
    .map(({ policy }) => policy)
    .filter((policy) => isJsonObject(policy) && readPolicy(policy).defect === undefined) as JsonObject[];
  if (policies.length !== receipts.length) return <li>What it may do cannot be read.</li>;
  const { may, mayNot, asks, toldToServer } = describePolicy(policyInForce(policies));
  return (
    <>
      <Words title="It may" items={may} />
      <Words title="It may not" items={mayNot} />
      <Words title="It asks a person" items={asks} />
      <Words title="The tool server is told, and must enforce itself" items={toldToServer} />
    </>
  );
}

export function Words({ title, items }: { readonly title: string; readonly items: readonly string[] }) {
  if (items.length === 0) return null;
  return (
    <li>
      {title}
      <ul>
        {items.map((item) => (
          <li key={item}>
            <Marked text={item} />
          </li>
        ))}
      </ul>
    </li>
  );
}

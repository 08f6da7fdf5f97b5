import { didOfJwk } from 'drs-verify/issue';
import pkcs11js from 'pkcs11js';

// PKCS#11 3.0 §2.3.5, for which pkcs11js has no name.
const CKM_EDDSA = 0x1057;

/**
 * An Ed25519 key in a token of PKCS#11, such as an HSM. It stays there: the token signs.
 *
 * @param {{ module: string, token: string, key: string, pin: string }} options the library of the token, the labels of
 *   the token and of the key, and the PIN
 * @returns {import('drs-verify/issue').Signer & { close: () => void }}
 */
export function pkcs11Signer({ module, token, key, pin }) {
  const pkcs11 = new pkcs11js.PKCS11();
  pkcs11.load(module);
  pkcs11.C_Initialize();
  const slot = pkcs11.C_GetSlotList(true).find((one) => pkcs11.C_GetTokenInfo(one).label.trim() === token);
  if (slot === undefined) throw new Error(`${module} has no token with the label ${token}`);
  const session = pkcs11.C_OpenSession(slot, pkcs11js.CKF_SERIAL_SESSION);
  pkcs11.C_Login(session, pkcs11js.CKU_USER, pin);

  /** @param {number} objectClass */
  const find = (objectClass) => {
    const wanted = [
      { type: pkcs11js.CKA_CLASS, value: objectClass },
      { type: pkcs11js.CKA_LABEL, value: key },
    ];
    pkcs11.C_FindObjectsInit(session, wanted);
    const [found, another] = pkcs11.C_FindObjects(session, 2);
    pkcs11.C_FindObjectsFinal(session);
    if (found === undefined || another !== undefined)
      throw new Error(`the token ${token} has no key pair with the label ${key}, or several`);
    return found;
  };
  const [point] = pkcs11.C_GetAttributeValue(session, find(pkcs11js.CKO_PUBLIC_KEY), [
    { type: pkcs11js.CKA_EC_POINT },
  ]);
  // The 32 bytes of the key, as a DER OCTET STRING. Of another kind of key, no signature verifies: nothing is issued.
  const x = Buffer.from(point?.value ?? []).subarray(-32);
  const privateKey = find(pkcs11js.CKO_PRIVATE_KEY);
  return {
    did: didOfJwk({ kty: 'OKP', crv: 'Ed25519', x: x.toString('base64url') }),
    // A session signs one text at a time, so nothing may come between these two.
    sign: (bytes) => {
      pkcs11.C_SignInit(session, { mechanism: CKM_EDDSA, parameter: null }, privateKey);
      return pkcs11.C_Sign(session, Buffer.from(bytes), Buffer.alloc(64));
    },
    close: () => {
      pkcs11.C_Finalize();
      pkcs11.close();
    },
  };
}

// What an example uses of pkcs11js. The package has types, but it is compiled when it is installed, so only whoever runs that
// example installs it.
declare module 'pkcs11js' {
  interface Attribute {
    type: number;
    value?: number | string | Buffer;
  }
  class PKCS11 {
    load(path: string): void;
    close(): void;
    C_Initialize(): void;
    C_Finalize(): void;
    C_GetSlotList(tokenPresent: boolean): Buffer[];
    C_GetTokenInfo(slot: Buffer): { label: string };
    C_OpenSession(slot: Buffer, flags: number): Buffer;
    C_Login(session: Buffer, userType: number, pin: string): void;
    C_FindObjectsInit(session: Buffer, template: Attribute[]): void;
    C_FindObjects(session: Buffer, max: number): Buffer[];
    C_FindObjectsFinal(session: Buffer): void;
    C_GetAttributeValue(session: Buffer, object: Buffer, template: Attribute[]): { value: Buffer }[];
    C_SignInit(session: Buffer, mechanism: { mechanism: number; parameter: null }, key: Buffer): void;
    C_Sign(session: Buffer, data: Buffer, signature: Buffer): Buffer;
  }
  const pkcs11js: {
    PKCS11: typeof PKCS11;
    CKF_SERIAL_SESSION: number;
    CKU_USER: number;
    CKA_CLASS: number;
    CKA_LABEL: number;
    CKA_EC_POINT: number;
    CKO_PUBLIC_KEY: number;
    CKO_PRIVATE_KEY: number;
  };
  export default pkcs11js;
}

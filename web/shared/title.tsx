/** The heading of a page. */
export function Title({ page }: { readonly page: string }) {
  return (
    <h1>
      <svg width="22" height="22" viewBox="0 0 16 16" aria-hidden="true">
        <rect width="16" height="16" rx="4" />
        <path d="M4 8.4 7 11l5-6" />
      </svg>
      drs-verify <span>{page}</span>
    </h1>
  );
}

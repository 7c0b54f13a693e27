// What node 22 has and node 20 has not.

URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null);

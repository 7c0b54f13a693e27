-- Accounts may come along from another system, with their hashes; a login
-- replaces those by Argon2id.

ALTER TABLE accounts
  DROP CONSTRAINT accounts_credential_is_argon2id,
  ADD CONSTRAINT accounts_credential_is_hash CHECK (
    credential_hash ~ '^[$](argon2id?|2[aby]|5|6|pbkdf2-sha256)[$]'
    AND octet_length(credential_hash) < 256);

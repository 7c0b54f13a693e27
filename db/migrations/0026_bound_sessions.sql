-- The key that a session is bound to (RFC 9449): its thumbprint (RFC 7638) as in
-- "jkt" of the session's tokens.  Null: the session is not bound.  What decides is
-- the signed tokens; this is for whoever looks at sessions.

ALTER TABLE auth_sessions ADD COLUMN key_thumbprint text;

CREATE TRIGGER auth_sessions_key_thumbprint
  AFTER INSERT ON auth_sessions
  FOR EACH ROW WHEN (NEW.key_thumbprint !~ '^[A-Za-z0-9_-]{43}$')
  EXECUTE FUNCTION auth_sessions_refused();

CREATE TRIGGER auth_sessions_key_frozen
  AFTER UPDATE OF key_thumbprint ON auth_sessions
  FOR EACH ROW WHEN (NEW.key_thumbprint IS DISTINCT FROM OLD.key_thumbprint)
  EXECUTE FUNCTION auth_sessions_refused();

-- A login that is not counted after all leaves no row behind.  A row of zero
-- failures says nothing, and an address that is over its limit, or that meets a
-- busy service, could have made one for every name it can think of.

DELETE FROM login_attempts WHERE failures = 0;

-- Takes one failure off a count, and the row with the last of them.
CREATE FUNCTION login_attempt_uncount(counted_hmac bytea, counted_address inet)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE login_attempts SET failures = failures - 1
   WHERE account_hmac = counted_hmac AND address = counted_address
     AND failures > 1;
  IF NOT FOUND THEN
    DELETE FROM login_attempts
     WHERE account_hmac = counted_hmac AND address = counted_address
       AND failures <= 1;
  END IF;
END;
$$;

-- As before, but for what becomes of the pair when the address is locked.
CREATE OR REPLACE FUNCTION login_attempt_begin(
  tried_hmac bytea, tried_address inet, most integer, window_s bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  wait bigint;
BEGIN
  wait := login_attempt_count(tried_hmac, tried_address, most, window_s);
  IF wait > 0 THEN
    RETURN wait;
  END IF;
  wait := login_attempt_count('', tried_address, most * 10, window_s);
  IF wait > 0 THEN
    PERFORM login_attempt_uncount(tried_hmac, tried_address);
    RETURN wait;
  END IF;
  DELETE FROM login_attempts
   WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM login_attempts
            WHERE window_ends_at < now() - interval '1 minute'
            ORDER BY window_ends_at LIMIT 8
              FOR UPDATE SKIP LOCKED));
  RETURN 0;
END;
$$;

CREATE OR REPLACE FUNCTION login_attempt_settle(
  tried_hmac bytea, tried_address inet, succeeded boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF succeeded THEN
    DELETE FROM login_attempts
     WHERE account_hmac = tried_hmac AND address = tried_address;
  ELSE
    PERFORM login_attempt_uncount(tried_hmac, tried_address);
  END IF;
  PERFORM login_attempt_uncount('', tried_address);
END;
$$;

-- Everybody may call a new function.  One that runs with its owner's rights
-- must not be everybody's: as the trigger of a table of the caller's own, it
-- would run the casts and operators of that table's types as the owner.
--
-- Triggers fire all the same: whoever made one needed the right, not whoever
-- sets it off.

REVOKE EXECUTE
  ON FUNCTION session_revocation_mark(), accounts_revoke(),
              auth_sessions_revoke(), auth_sessions_revoke_all()
  FROM PUBLIC;

-- As before, but a member that is not known is named.
CREATE OR REPLACE FUNCTION import_list(list jsonb, what text, members text[])
RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
  element jsonb;
BEGIN
  IF jsonb_typeof(coalesce(list, 'null')) = 'null' THEN
    RETURN;
  ELSIF jsonb_typeof(list) <> 'array' THEN
    RAISE EXCEPTION '% is no array', what USING ERRCODE = 'data_exception';
  END IF;
  FOR element IN SELECT jsonb_array_elements(list) LOOP
    IF jsonb_typeof(element) <> 'object' THEN
      RAISE EXCEPTION '% has an element that is no object', what
        USING ERRCODE = 'data_exception';
    ELSIF element - members <> '{}' THEN
      RAISE EXCEPTION '% has an unknown member "%"; known are %', what,
                      (SELECT left(min(m), 64)
                         FROM jsonb_object_keys(element - members) AS m),
                      array_to_string(members, ', ')
        USING ERRCODE = 'data_exception';
    END IF;
    RETURN NEXT element;
  END LOOP;
END;
$$;

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

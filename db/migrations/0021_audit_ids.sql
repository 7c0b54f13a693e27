-- Lists of the audit go on after an event by its id.

CREATE INDEX audit_events_id ON audit_events (event_id);

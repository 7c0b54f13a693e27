-- Lists of the audit go on after an event by its id; those of one kind of event are found
-- at once, however many others there are.

CREATE INDEX audit_events_id ON audit_events (event_id);
CREATE INDEX audit_events_event ON audit_events (event, event_at, event_id);

/* Faults of what a caller sent, for the member errors of a problem. */

#include "base/fault.h"

static const char *const names[] = {
    [FAULT_CONFLICT] = "conflict",         [FAULT_MALFORMED] = "malformed",
    [FAULT_MISSING] = "missing",           [FAULT_NOT_ALLOWED] = "not_allowed",
    [FAULT_OUT_OF_RANGE] = "out_of_range", [FAULT_TOO_LONG] = "too_long",
    [FAULT_TOO_SHORT] = "too_short",       [FAULT_UNKNOWN] = "unknown",
    [FAULT_WRONG_TYPE] = "wrong_type",
};

void fault_add(struct faults *faults, struct fault fault)
{
    if (faults->count < FAULTS_MAX) {
        faults->items[faults->count++] = fault;
    }
}

void fault_write(struct jsonw *json, const struct faults *faults)
{
    jsonw_array(json, "errors");
    for (size_t i = 0; i < faults->count; i++) {
        const struct fault *f = &faults->items[i];

        jsonw_object(json, NULL);
        if (f->pointer != NULL) {
            jsonw_cstr(json, "pointer", f->pointer);
        } else if (f->parameter != NULL) {
            jsonw_cstr(json, "parameter", f->parameter);
        } else {
            jsonw_cstr(json, "header", f->header);
        }
        jsonw_cstr(json, "code", names[f->code]);
        if (f->minimum != 0) {
            jsonw_int(json, "minimum", f->minimum);
        }
        if (f->maximum != 0) {
            jsonw_int(json, "maximum", f->maximum);
        }
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

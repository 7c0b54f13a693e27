/* Phrases and stable names of the error codes. */

#include "pj_internal.h"

typedef struct {
    const char *name;
    const char *phrase;
} err_text_t;

static const err_text_t texts[PJ_ERR_COUNT] = {
    [PJ_OK] = {"ok", "no error"},
    [PJ_ERR_ARGUMENT] = {"argument", "a wrong argument inside the program"},
    [PJ_ERR_NO_SPACE] = {"no_space", "out of working memory"},
    [PJ_ERR_CRYPTO] = {"crypto", "the cryptographic library failed"},
    [PJ_ERR_BASE64] = {"base64", "malformed base64"},
    [PJ_ERR_JSON_SYNTAX] = {"json_syntax", "malformed JSON"},
    [PJ_ERR_JSON_DUPLICATE] = {"json_duplicate", "a repeated JSON member"},
    [PJ_ERR_JSON_DEPTH] = {"json_depth", "JSON nested too deeply"},
    [PJ_ERR_JSON_NUL] = {"json_nul", "a NUL character in JSON"},
    [PJ_ERR_JSON_LIMIT] = {"json_limit", "too many JSON members or values"},
    [PJ_ERR_JSON_TYPE] = {"json_type", "a JSON value of the wrong type"},
    [PJ_ERR_KEY_FORMAT] = {"key_format", "not an RSA key in a known format"},
    [PJ_ERR_KEY_WEAK] = {"key_weak", "RSA key size or exponent out of bounds"},
    [PJ_ERR_KEY_MISMATCH] = {"key_mismatch",
                             "private and public key are no pair"},
    [PJ_ERR_KEY_UNUSABLE] = {"key_unusable",
                             "the key is meant for another use"},
    [PJ_ERR_KEYSET_EMPTY] = {"keyset_empty", "the key set has no usable key"},
    [PJ_ERR_KID_UNKNOWN] = {"kid_unknown",
                            "the token was signed by an unknown key"},
    [PJ_ERR_TOKEN_SIZE] = {"token_size", "too large"},
    [PJ_ERR_TOKEN_SHAPE] = {"token_shape", "the token is malformed"},
    [PJ_ERR_TOKEN_HEADER] = {"token_header", "the token header is malformed"},
    [PJ_ERR_TOKEN_ALG] = {"token_alg", "the token algorithm is not accepted"},
    [PJ_ERR_TOKEN_TYP] = {"token_typ",
                          "the token header type is not accepted"},
    [PJ_ERR_TOKEN_CRIT] = {"token_crit",
                           "the token needs an unsupported extension"},
    [PJ_ERR_TOKEN_KID] = {"token_kid", "the key id is missing or malformed"},
    [PJ_ERR_TOKEN_SIGNATURE] = {"token_signature",
                                "the token signature is not valid"},
    [PJ_ERR_TOKEN_CLAIMS] = {"token_claims",
                             "a token claim is missing or malformed"},
    [PJ_ERR_TOKEN_ISSUER] = {"token_issuer",
                             "the token issuer is not accepted"},
    [PJ_ERR_TOKEN_AUDIENCE] = {"token_audience",
                               "the token is for another audience"},
    [PJ_ERR_TOKEN_BOUND] = {"token_bound",
                            "the token is bound to a key, a bearer may not "
                            "use it"},
    [PJ_ERR_TOKEN_EXPIRED] = {"token_expired", "the token has expired"},
    [PJ_ERR_TOKEN_NOT_YET] = {"token_not_yet", "the token is not valid yet"},
    [PJ_ERR_TOKEN_KIND] = {"token_kind", "the token is of an unknown kind"},
};

static const err_text_t *err_text(pj_err_t err)
{
    static const err_text_t unknown = {"unknown", "an unknown error"};

    /* The enum may be unsigned or signed: the cast covers both. */
    return (unsigned) err < PJ_ERR_COUNT ? &texts[err] : &unknown;
}

const char *pj_strerror(pj_err_t err)
{
    return err_text(err)->phrase;
}

const char *pj_errname(pj_err_t err)
{
    return err_text(err)->name;
}

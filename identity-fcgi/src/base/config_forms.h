/* Forms of settings that the program (config.c) and the nginx templates
 * (tools/render) share.  FORM_x is an extended regular expression for a whole
 * value, or for each word of a list.  A_x describes accepted values in errors.
 * Without a FORM_x, a value must be one of the words of A_x, in any letter
 * case. tools/render understands only strings and names. */
#pragma once

/* Parts of the forms. */
#define LABEL "[_0-9A-Za-z]([-_0-9A-Za-z]*[_0-9A-Za-z])?"
#define LAST_LABEL "[0-9]*[_A-Za-z]([-_0-9A-Za-z]*[_0-9A-Za-z])?"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define IPV6 "[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
#define NAME "(" LABEL "\\.)*" LAST_LABEL
#define SERVER "(" IPV4 "|\\[" IPV6 "\\]|" NAME "\\.?)"
#define PATH_CHARS "[-A-Za-z0-9_./+@%=~"
#define SOCKET "(unix:)?/" PATH_CHARS "]+"

#define FORM_PORT                                                              \
    "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|"            \
    "655[0-2][0-9]|6553[0-5]"
#define A_PORT "a number from 1 to 65535"
#define PORT "(" FORM_PORT ")"

#define FORM_HOST SERVER
#define A_HOST "an address, [IPv6 address] or host name"

#define FORM_ADDRESS SOCKET "|" SERVER ":" PORT
#define A_ADDRESS "host:port, [IPv6 address]:port or unix:/path/to.sock"

#define FORM_LOCAL_ADDRESS SOCKET "|(127(\\." OCTET "){3}|\\[::1\\]):" PORT
#define A_LOCAL_ADDRESS                                                        \
    "127.0.0.1:port, [::1]:port or unix:/path/to.sock, of this host alone"

#define FORM_URL "https?://" SERVER "(:" PORT ")?(/[A-Za-z0-9_.~/%-]*)?"
#define A_URL "http://host:port or https://host:port, with a path"

#define FORM_SITE "https?://" SERVER "(:" PORT ")?/?"
#define A_SITE "http://host:port or https://host:port, without a path"

/* An origin as browsers send it.  A leading "*." must be followed by at least
 * two labels, because *.com would match any host. */
#define FORM_ORIGIN                                                            \
    "https?://(\\*\\." LABEL "\\." NAME "|" IPV4 "|\\[" IPV6 "\\]|" NAME       \
    ")(:" PORT ")?"
#define A_ORIGIN                                                               \
    "origins as a browser sends them, separated by spaces; "                   \
    "https://*.example.com for all subdomains; never *"

#define FORM_PUBLIC "https?://(" IPV4 "|\\[" IPV6 "\\]|" NAME ")(:" PORT ")?"
#define A_PUBLIC                                                               \
    "http://host:port or https://host:port, without a path, separated by "     \
    "spaces"

#define FORM_URI "[]A-Za-z0-9:/?#[@!&()*+,=._~%-]{1,512}"
#define A_URI "the characters of a URI, at most 512"

#define FORM_HEADER "[A-Za-z0-9_-]+"
#define A_HEADER "header names, separated by spaces or commas"

#define FORM_NETWORK                                                           \
    IPV4 "(/([1-9]|[12][0-9]|3[0-2]))?|" IPV6                                  \
         "(/([1-9][0-9]?|1[01][0-9]|12[0-8]))?"
#define A_NETWORK                                                              \
    "addresses and CIDRs, separated by spaces or commas; a prefix length of "  \
    "0 is refused"

#define FORM_RATE "[Oo][Ff][Ff]|[1-9][0-9]{0,5}r/[sm]( burst[ =][0-9]{1,6})?"
#define A_RATE "off, or like 10r/s burst 20"

#define FORM_LOG_BUFFER "[Oo][Ff][Ff]|[1-9][0-9]{0,2}k"
#define A_LOG_BUFFER "off, or 1k to 999k"

#define FORM_TIME "[1-9][0-9]{0,5}(ms|s|m|h)"
#define A_TIME "a number with ms, s, m or h"

#define FORM_PATH "/" PATH_CHARS ",]*"
#define FORM_PATH_OR_OFF "[Oo][Ff][Ff]|" FORM_PATH
#define A_PATH_OR_OFF "off, or " A_PATH
#define A_PATH "an absolute path of letters, digits and _ . / + @ % = , ~ -"

#define FORM_USER "[a-z_][a-z0-9_-]*"
#define A_USER "lower-case letters, digits, _ and -"

#define FORM_PROGRAM "[A-Za-z0-9_./+-]+"
#define A_PROGRAM "nginx, or the path of another"

#define FORM_OWN_NAME "127(\\." OCTET "){3}|localhost"
#define A_OWN_NAME "127.x.x.x or localhost"

#define A_BOOL "true, false, 1, 0, on, off"
#define A_STALE "pass, refuse"
#define A_SYSTEM_API "face, gateway, off"

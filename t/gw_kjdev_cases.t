# The published test cases of another gateway module, kjdev/nginx-auth-jwt (commit
# ab9d9c1), as far as they are about whether a token passes: each told in our directives
# and asked here.  41 of 419 are left out: those of its variables, phases and challenges,
# and of files of revocations that are none.

use Crypt::Mac::HMAC qw(hmac);
use Crypt::PK::ECC;

use Platform::Test;
use Platform::Test::Revocations;

my $t = Platform::Test->new;

# -- keys by the names that the table uses; theirs of HS256 are ES256 where it does not matter

package Other {    # a key for what we do not have

    sub new ($class, $kid, $alg, $jwk, $sign) {
        return bless { kid => $kid, alg => $alg, sign => $sign,
            jwk => { %$jwk, kid => $kid, alg => $alg, use => 'sig' } }, $class;
    }
    sub kid ($self) { return $self->{kid} }
    sub alg ($self) { return $self->{alg} }
    sub jwk ($self) { return $self->{jwk} }
    sub sign ($self, $input, %) { return $self->{sign}->($input) }
}

my %ALG = (4 => 'RS256', 5 => 'RS384', 6 => 'RS512');
my %key = map { ("t$_" => jwt_key("kjdev-$_", alg => $ALG{$_} // 'ES256', kid => "test$_")) }
    1 .. 7, 10;
$key{bad1} = $key{t2}->as('test1');
for my $of ([ t8 => 384, 'secp384r1' ], [ t9 => 512, 'secp521r1' ]) {
    my ($name, $bits, $curve) = @$of;
    my $ec = Crypt::PK::ECC->new->generate_key($curve);
    $key{$name} = Other->new($name =~ s/t/test/r, "ES$bits", $ec->export_key_jwk('public', 1),
        sub ($input) { $ec->sign_message_rfc7518($input, "SHA$bits") });
}
for my $n (1 .. 3) {
    my $bits = 128 + 128 * $n;
    $key{"h$n"} = Other->new("test$n", "HS$bits", { kty => 'oct', k => b64url("test$n.secret") },
        sub ($input) { hmac("SHA$bits", "test$n.secret", $input) });
}

# Entries of a key set: keys by name; all of them but those above; what has no kid; what
# is no key.
my @ALL = map { $key{"t$_"} } 1 .. 10;
my %SET = (
    all => [ map { $_->jwk } @ALL ],
    hs => [ map { $key{$_}->jwk } qw(h1 h2 h3) ],
    nokid => [ map { my %jwk = %{ $_->jwk }; delete $jwk{kid}; \%jwk } @ALL ],
    broken => [ { kid => 'test1', use => 'sig' }, { kty => 'EC', crv => 'P-256', kid => 'test1' } ],
    map { $_ => [ $key{$_}->jwk ] } keys %key,
);

# -- tokens by the names that the table uses

sub claims_of ($n, %change) {
    my %claims = (iss => "https://test$n.issuer.example.com", sub => "test$n.identifier",
        aud => "test$n.audience.example.com", exp => 4133862000, iat => 1662512286,
        email => "test$n\@example.com", %change);
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return \%claims;
}

my %CLAIMS = (iss => 'issuer', sub => '1234567890', name => 'John Doe', iat => 1516239022,
    exp => 4133862000, roles => [ 'admin', 'service' ]);
my @A = qw(admin user);
my %TOKEN = (
    (map { ("t$_" => [ "t$_", claims_of($_) ]) } 1 .. 9),
    (map { ("h$_" => [ "h$_", claims_of($_) ]) } 1 .. 3),
    t10 => [ 't10', claims_of(10, aud => [ 'test10.audience.example.com',
        'test10.audience.test.com' ]) ],
    past => [ 't1', claims_of(1, exp => 1577804400, iat => 1577804400) ],
    ends => [ 't1', claims_of(1, exp => -1) ],
    begins => [ 't1', claims_of(1, iat => -1) ],
    decimal => [ 't1', claims_of(1, exp => 4133862000.5, iat => 1662512286.5) ],
    noiss => [ 't1', claims_of(1, iss => undef) ],
    nosub => [ 't1', claims_of(1, sub => undef) ],
    noiat => [ 't1', claims_of(1, iat => undef) ],
    nbf => [ 't1', claims_of(1, nbf => 1667228400) ],
    ahead => [ 't1', claims_of(1, nbf => 4133862000) ],
    nonce => [ 't1', claims_of(1, nonce => 'r7sIvkSN75noYlK6TG4Tn1') ],
    nokid => [ 't1', claims_of(1), kid => undef ],
    emptykid => [ 't1', claims_of(1), kid => '' ],
    none => [ undef, claims_of(1), alg => 'none', kid => 'test0' ],
    claims => [ 't1', \%CLAIMS ],
    real => [ 't1', { %CLAIMS, iat => 1516239022.1234, exp => 4133862000.5678 } ],
    nested => [ 't1', { %CLAIMS, roles => \@A, 'access.roles' => [ map {"access_roles_$_"} @A ],
        grants => { access => [ map {"grants_access_$_"} @A ],
            roles => [ map {"grants_roles_$_"} @A ],
            'access.roles' => [ map {"grants_access_roles_$_"} @A ],
            service => { roles => [ map {"grants_service_roles_$_"} @A ] },
            'access.service' => { roles => [ map {"grants_access_service_roles_$_"} @A ] } } } ],
    field => [ 't1', { %CLAIMS, address => { city => 'Tokyo', zip => '100-0001' }, roles => \@A,
        'dotted.key' => 'dotted_value', nested => { 'dotted.child' => 'nested_dotted_value' } } ],
);
my %tokens;

sub token ($name, $iss) {
    my ($key, $claims, %header) = @{ $TOKEN{ $name =~ s/^sig$/t1/r } };
    my %claims = (%$claims, $iss && $claims->{iss} ? (iss => $iss) : ());
    return $tokens{ $name, $iss // '' } //= do {
        my $token = jwt_sign(payload => \%claims, header => \%header,
            $key ? (key => $key{$key}) : ());
        $name eq 'sig' ? jwt_tamper($token, 2, 40) : $token;
    };
}

# -- the table: case | ours | token | they answer | we answer | why
#
# Ours: lines of the location, without platform_gateway_, and with "=" of the issuer's
# block; "=keys NAMES" are the entries of its key set, of a location if "=fetched".  "-":
# it cannot be told.  Token: "?" it is in the query, "\@" in a cookie, "." there is none.
# Answers: one for each token; dies: nginx refuses to start; x and a number: so many cases
# that one reason tells.  No answer of ours: the same.

my %WHY = (
    alg  => 'ES384 and ES512 are not among our algorithms',
    code => 'a requirement that fails is a 403',
    bad  => 'nginx does not start with a file of no keys',
    cmp  => 'a requirement names values: no order, negation or regular expression',
    empty => 'no empty value can be demanded',
    fmt  => 'a key file is a JWK set',
    hdr  => 'requirements are of claims',
    hs   => 'no HS*: who can verify such a token can make one',
    id   => 'a token has to say who issued it, and for whom',
    idx  => 'no places in arrays: any element counts',
    kid  => 'the kid chooses the key, and there is one of each kid',
    keys => 'without any key we cannot judge a token: 503',
    lim  => 'not within limit_except',
    max  => 'leeway is five minutes at most',
    none => 'no token without a signature',
    off  => 'no check can be turned off',
    path => 'dots are always a path',
    src  => 'tokens come in Authorization',
    var  => 'a value is known when nginx starts',
);

my $KEYS = <<'TABLE';
the first of three sets | =keys t1 t2 t3 | t1 | 200
the second | =keys t1 t2 t3 | t2 | 200
the third | =keys t1 t2 t3 | t3 | 200
none of them | =keys t1 t2 t3 | t4 | 401
by a variable, with the key | - | t3 | 200 | - | var
by a variable, without it | - | t3 | 401 | - | var
of http, server and location: the location's | =keys t1 t2 t3 | t1 | 200
the server's | =keys t2 t1 t3 | t1 | 200
that of http | =keys t3 t2 t1 | t1 | 200
none of them all | =keys t1 t2 t3 | t4 | 401
one kid twice: the second is right | =keys bad1 t1 | t1 | 200 | 401 | kid
the first is right | =keys t1 bad1 | t1 | 200
one kid in two files: the second is right | =keys bad1 t1 | t1 | 200 | 401 | kid
of server and location: the location's is right | =keys bad1 t1 | t1 | 200 | 401 | kid
the server's is right | =keys t1 bad1 | t1 | 200
the location's, again | =keys bad1 t1 | t1 | 200 | 401 | kid
a JWK set, said so | =keys all | t1 | 200
with RS256 | =keys all | t4 | 200
a list of PEM by kid | - | t4 | 200 | - | fmt
a JWK set and such a list | - | t1 | 200 | - | fmt
the key in the list | - | t4 | 200 | - | fmt
a file that is an unset variable | - | . | dies | - | var
a format that is none | key_file keys.json invalid | . | dies
keys without a kid | =keys nokid t7 | t1 | 200 | 401 | kid
RS256 without a kid | =keys nokid t7 | t4 | 200 | 401 | kid
a wrong key of that kid, a good one without | =keys bad1 nokid | t1 | 200 | 401 | kid
within limit_except | - | t1 t2 t1 t2 | 200 401 200 200 | - | lim
TABLE

my @TABLE = (
    'where a token is' => <<'TABLE',
Authorization | | t1 | 200
no Authorization | | . | 401
a variable | - | t2 | 200 | - | src
the query | | ?t3 | 200 | 401 | src
nothing in the query | | . | 401
a cookie | | @t4 | 200 | 401 | src
no cookie | | . | 401
no token at all | | TOKEN | 401
an empty one | | EMPTY | 401
the location's source | | ?t3 | 200 | 401 | src
the location's, and one elsewhere | | t1 | 401 | 200 | src
the server's source | | ?t3 | 200 | 401 | src
the server's, and one elsewhere | | t1 | 401 | 200 | src
the location's, not that of http | | ?t3 | 200 | 401 | src
the location's, and one as http says | | t1 | 401 | 200 | src
off | access public | t1 | 200
times with fractions | | decimal | 200
no kid | | nokid | 200 | 401 | kid
within limit_except | - | . t1 . t1 | 200 200 401 200 | - | lim
sets of files and locations: 1 | | t1 | 200
sets of files and locations: 2 | | t2 | 200
sets of files and locations: 3 | | t3 | 200
sets of files and locations: 4 | | t4 | 200
sets of files and locations: 5 | | t5 | 200
sets of files and locations: 6 | | t6 | 200
TABLE
    'keys in files' => $KEYS . <<'TABLE',
no key in it is one | key_file broken.json | . | 401 | dies | bad
no such file | key_file /none/keys.json | . | dies
no such file, by a variable | - | t1 | 401 | - | var
no such list, by a variable | - | t1 | 401 | - | var
TABLE
    'keys fetched' => $KEYS =~ s/=keys/=fetched; =keys/gr =~ s/key_file keys.json/key_location \/k/r
        . <<'TABLE',
no key in it is one | =fetched; =keys broken | t1 | 401 | 503 | keys
no such location's document | =fetched; =keys absent | t1 | 401 | 503 | keys
a document that is no set | =fetched; =keys text | t1 | 401 | 503 | keys
an empty one | =fetched; =keys empty | t1 | 401 | 503 | keys
compressed | =fetched; =keys compressed | t1 | 401 | 503 | keys
compressed, beside a good file | =fetched; =keys compressed | t1 | 401 | 503 | keys
TABLE
    'leeway' => <<'TABLE',
by default | | past | 401
10 seconds | leeway 10s | past | 401
10 minutes | - | past | 401 | - | max
10 hours | - | past | 401 | - | max
10 days | - | past | 401 | - | max
10 weeks | - | past | 401 | - | max
10 months | - | past | 401 | - | max
a year | - | past | 401 | - | max
100 years | leeway 300s | past | 200 | 401 | max
no number | leeway y | . | dies
TABLE
    'requirements by variables' => <<'TABLE',
a claim | require iss https://test1.issuer.example.com | t1 | 200
a header | - | t1 | 200 | - | hdr
another value | require iss issuer | t1 | 401 | 403 | code
any value but one | - | t1 | 200 | - | cmp
that one | - | t1 | 401 | - | cmp
several | require iss https://test1.issuer.example.com; require sub test1.identifier | t1 | 200
several, not the first | require iss fail; require sub test1.identifier | t1 | 401 | 403 | code
not the second | require email test1@example.com; require sub fail | t1 | 401 | 403 | code
not the header | - | t1 | 401 | - | hdr
in lines | require iss https://test1.issuer.example.com; require sub test1.identifier | t1 | 200
in lines, not the first | require iss fail; require sub test1.identifier | t1 | 401 | 403 | code
not the second line | require sub fail; require email test1@example.com | t1 | 401 | 403 | code
not the line of the header | - | t1 | 401 | - | hdr
said as 403, holds | require iss https://test1.issuer.example.com | t1 | 200
said as 403 | require iss issuer | t1 | 403
several as 403, hold | require sub test1.identifier; require email test1@example.com | t1 | 200
several as 403 | require sub identifier; require email test1@example.com | t1 | 403
said as 600 | - | . | dies | - | code
no variable | require iss | . | dies
within limit_except | - | t1 t2 t1 t2 | 200 200 401 200 | - | lim
said as 404 | require sub nomatch | t1 | 404 | 403 | code
said as 500, holds | require iss https://test1.issuer.example.com | t1 | 200
said as 444 | - | . | dies | - | code
said as 499 | - | . | dies | - | code
said as 399 | - | . | dies | - | code
nothing but a status | require | . | dies
the first fails as 401 | require iss fail; require sub test1.identifier | t1 | 401 | 403 | code
the first fails as 403 | require iss fail; require sub test1.identifier | t1 | 403
the second fails as 401 | require sub fail; require email test1@example.com | t1 | 401 | 403 | code
the second fails as 403 | require sub fail; require email test1@example.com | t1 | 403
the third fails as 404 | require sub test1.identifier; require email fail | t1 | 404 | 403 | code
TABLE
    'requirements' => <<'TABLE',
all comparisons of a variable | - | t1 | 401 | - | cmp
of a string | - | t1 | 401 | - | cmp
of JSON | - | t1 | 401 | - | cmp
a comparison that is none | - | . | dies | - | cmp
a variable that is not JSON | - | t1 | 401 | - | var
JSON that is none | require exp "'1'" | t1 | 401 | 403 | code
within limit_except | - | t1 t2 t1 t2 | 200 200 401 200 | - | lim
any: in both lists | require roles admin user_role1; require roles admin service | claims | 200
any: in none | require roles user_role1 user_role2 user_role3 | claims | 401 | 403 | code
any: of no list | require roles "just string" | claims | 401 | 403 | code
any: of a string | require name "John Doe" Role | claims | 200
not any | - | claims | 200 | - | cmp
not any, but one | - | claims | 401 | - | cmp
equal | require name "John Doe"; require sub 1234567890; require iat 1516239022 | claims | 200
another string | require name "Not John Doe" | claims | 401 | 403 | code
another number | require iat 111 | claims | 401 | 403 | code
another array | require roles user | claims | 401 | 403 | code
in a list | require name "John Doe" "John Doe2" | claims | 200
not in it | require name "John Doe5" "John Doe2" | claims | 401 | 403 | code
in no list | require name "just string" | claims | 401 | 403 | code
in both lists | require roles admin user_role1; require roles service | claims | 200
not in the list | require roles user_role1 user_role2 user_role3 | claims | 401 | 403 | code
in a string | require roles "just string" | claims | 401 | 403 | code
a string, not in the list | require name user_role1 user_role2 | claims | 401 | 403 | code
a string in the list | require name "John Doe" Role | claims | 200
gt, ge, lt and le of numbers and strings | - | . | 200x14 401x21 | - | cmp
ne of each type | - | . | 200x1 401x3 | - | cmp
nin | - | . | 200x1 401x2 | - | cmp
nintersect | - | . | 200x2 401x3 | - | cmp
any comparison, negated | - | . | 200x6 401x3 diesx1 | - | cmp
regular expressions | - | . | 200x12 401x11 diesx3 | - | cmp
matches from end to end | require name "John Doe" | claims | 200
its issuer matches so | require iss issuer | claims | 200
a path | require grants.access grants_access_admin | nested | 200
two | require grants.access grants_access_user; require roles admin | nested | 200
three deep | require grants.service.roles grants_service_roles_admin | nested | 200
a name with a dot, as a path | require access.roles access_roles_admin | nested | 401 | 403 | code
in quotes | require '"access.roles"' access_roles_admin | nested | 200
within | require 'grants."access.service".roles' grants_access_service_roles_user | nested | 200
another delimiter | - | nested | 200 | - | path
other quotes | require '"access.roles"' x | nested | 401 | 403 | code
a path in the header | - | nested | 200 | - | hdr
allowed on the server | require grants.access grants_access_user | nested | 200
in one of two | require grants.access grants_access_user | nested nested | 200 401 | 200 200 | path
a first dot: a name | require sub 1234567890 | field | 200
a path behind it | require address.city Tokyo | field | 200
an element by number | - | field | 200 | - | idx
the second | - | field | 200 | - | idx
a member of an element | - | field | 200 | - | idx
a name in quotes | require '"dotted.key"' dotted_value | field | 200
behind a path | require 'nested."dotted.child"' nested_dotted_value | field | 200
no such path | require nonexistent.path something | field | 401 | 403 | code
no such element | - | field | 401 | - | idx
an element of an object | - | field | 401 | - | idx
a member of an array | require roles.name something | field | 401 | 403 | code
without being allowed | require address.city Tokyo; require roles admin | field | 200
beside other paths | require address.city Tokyo; require address.zip 100-0001 | field | 200
of the header | - | field | 200 | - | hdr
an element in the header | - | field | 200 | - | hdr
an element of an element | - | field | 200 | - | idx
a number in an element | - | field | 200 | - | idx
a path that is none | require .[invalid something | . | dies
a value from a client, too long | - | claims | 401 | - | var
a value within the limit | require name "John Doe" | claims | 200
TABLE
    'requirements of the header' => <<'TABLE',
all comparisons | - | t1 | 401 | - | cmp
its kid | =keys t1 | t1 | 200
another kid | =keys t2 | t1 | 401
a comparison that is none | - | . | dies | - | cmp
a variable that is not JSON | - | t1 | 401 | - | var
within limit_except | - | t1 t2 t1 t2 | 200 200 401 200 | - | lim
none, and a forged one after it | | none sig | 200 401 | 401 401 | none
the time of each request | | t1 past | 200 401
TABLE
    'revocations' => <<'TABLE',
a kid that is not revoked | =keys t1 | t1 | 200
a revoked kid | =keys t1 | t2 | 401
an empty kid | | emptykid | 401
no kid | | nokid | 401
within limit_except | - | t1 t2 t1 t2 | 200 200 200 401 | - | lim
a subject that is not revoked | =revoked | t1 | 200
a revoked subject | =revoked | t2 | 401
a subject in two lists | =revoked | t2 | 401
within limit_except | - | t1 t2 t1 t2 | 200 200 200 401 | - | lim
TABLE
    'end and signature' => <<'TABLE',
past its end | | past | 401
not checked in a location | | past | 200 | 401 | off
not checked in a server | | past | 200 | 401 | off
not checked in http | | past | 200 | 401 | off
checked again | | past | 401
an end before 1970 | | ends | 401
within limit_except | - | past past | 200 401 | - | lim
a forged signature | | sig | 401
not verified in a location | | sig | 200 | 401 | off
not verified in a server | | sig | 200 | 401 | off
not verified in http | | sig | 200 | 401 | off
verified again | | sig | 401
not verified, without keys | | sig | 200 | 401 | off
within limit_except | - | sig sig | 200 401 | - | lim
TABLE
    'claims' => <<'TABLE',
the audience | =audience test1.audience.example.com | t1 | 200
from a variable | =audience test1.audience.example.com | t1 | 200
its end alone | =audience audience.example.com | t1 | 401
more before it | =audience app.test1.audience.example.com | t1 | 401
another one | =audience test.com | t1 | 401
an empty one | - | t1 | 401 | - | empty
the first of two | =audience test10.audience.example.com | t10 | 200
the second | =audience test10.audience.test.com | t10 | 200
none of them | =audience audience.example.com | t10 | 401
within limit_except | - | t1 t1 | 200 401 | - | lim
an end that is past | | past | 401
an end after 1970 is enough | | past | 200 | 401 | off
after now | | past | 401
with 100 years of leeway | leeway 300s | past | 200 | 401 | max
within limit_except | - | past past | 200 401 | - | lim
made after 1970 | | t1 | 200
made before a time | - | t1 | 401 | - | cmp
made before 1970, forbidden | - | begins | 401 | - | cmp
made before 1970 | | begins | 200
no time, one is needed | - | noiat | 401 | - | cmp
within limit_except | - | t1 t1 | 200 401 | - | lim
the issuer | require iss https://test1.issuer.example.com | t1 | 200
another issuer | =issuer https://issuer.example.com | t1 | 401
no issuer, none is demanded | | noiss | 200 | 401 | id
no issuer | require iss https://test1.issuer.example.com | noiss | 401
within limit_except | - | nbf nbf | 200 401 | - | lim
begun | | nbf | 200
no beginning, one is needed | - | t1 | 401 | - | cmp
no beginning | | t1 | 200
not begun | | ahead | 401
not begun, with 100 years of leeway | leeway 300s | ahead | 200 | 401 | max
within limit_except | - | nbf nbf | 200 401 | - | lim
the nonce | require nonce r7sIvkSN75noYlK6TG4Tn1 | nonce | 200
the nonce by a variable | require nonce r7sIvkSN75noYlK6TG4Tn1 | nonce | 200
its beginning | require nonce r7sIvkSN75 | nonce | 401 | 403 | code
more after it | require nonce r7sIvkSN75noYlK6TG4Tn1XGMvKk | nonce | 401 | 403 | code
another nonce | require nonce YlK6TG4Tn1r7sIvkSN75no | nonce | 401 | 403 | code
an empty nonce | - | nonce | 401 | - | empty
no nonce | require nonce r7sIvkSN75noYlK6TG4Tn1 | t1 | 401 | 403 | code
within limit_except | - | nonce nonce | 200 401 | - | lim
the subject | require sub test1.identifier | t1 | 200
another subject | require sub identifier | t1 | 401 | 403 | code
no subject, none is demanded | | nosub | 200 | 401 | id
no subject | require sub test1.identifier | nosub | 401
within limit_except | - | t1 t1 | 200 401 | - | lim
TABLE
    'algorithms' => <<'TABLE',
HS256 | =keys hs t7 | h1 | 200 | 401 | hs
RS256 where HS256 is demanded | =algorithms ES256 | t4 | 401
HS384 | =keys hs t7 | h2 | 200 | 401 | hs
RS384 where HS384 is demanded | =algorithms ES256 | t5 | 401
HS512 | =keys hs t7 | h3 | 200 | 401 | hs
RS512 where HS512 is demanded | =algorithms ES256 | t6 | 401
RS256 | =algorithms RS256 | t4 | 200
RS256 by PEM | - | t4 | 200 | - | fmt
HS256 where RS256 is demanded | =algorithms RS256; =keys hs t4 | h1 | 401
RS384 | =algorithms RS384 | t5 | 200
RS384 by PEM | - | t5 | 200 | - | fmt
HS384 where RS384 is demanded | =algorithms RS384; =keys hs t5 | h2 | 401
RS512 | =algorithms RS512 | t6 | 200
RS512 by PEM | - | t6 | 200 | - | fmt
HS512 where RS512 is demanded | =algorithms RS512; =keys hs t6 | h3 | 401
ES256 | =algorithms ES256 | t7 | 200
ES256 by PEM | - | t7 | 200 | - | fmt
ES256, not verified | =algorithms ES256 | t7 | 200
ES256 where RS256 is demanded | =algorithms RS256 | t7 | 401
ES384 | | t8 | 200 | 401 | alg
ES384 by PEM | - | t8 | 200 | - | fmt
ES384, not verified | | t8 | 200 | 401 | alg
ES384 where RS384 is demanded | =algorithms RS384 | t8 | 401
ES512 | | t9 | 200 | 401 | alg
ES512 by PEM | - | t9 | 200 | - | fmt
ES512, not verified | | t9 | 200 | 401 | alg
ES512 where RS512 is demanded | =algorithms RS512 | t9 | 401
none | | none | 200 | 401 | none
none where HS256 is demanded | =algorithms ES256 | none | 401
none by default | | none | 401
within limit_except | - | t1 t1 | 200 401 | - | lim
TABLE
);

# -- the configuration: a block for each set of lines with "=", a location for each set

my @cases;
while (my ($subject, $lines) = splice @TABLE, 0, 2) {
    for my $line (split /\n/, $lines) {
        my ($name, $how, $tokens, $theirs, $ours, $why) = split /\s*\|\s*/, $line;
        my @how = split /\s*;\s*/, $how;
        push @cases, { name => "$subject: $name", told => $how ne '-', why => $why,
            block => join('; ', grep {/^=/} @how), tokens => [ split / /, $tokens ],
            location => join('', map {"platform_gateway_$_; "} grep { !/^=/ } @how),
            theirs => $theirs, ours => $ours // $theirs };
    }
}

my (%block, %path, $http, $server);

# The block of those lines; without any, one that trusts the issuers of all tokens.
sub block ($lines) {
    return $block{$lines} if $block{$lines};
    my $n = keys %block;
    my $b = $block{$lines} = { name => "b$n", iss => $lines ? "https://b$n.test" : undef };
    my ($set) = $lines =~ /=keys ([^;]*)/;
    my $keys = join ' ', $set // 'all';
    my $file = "keys$n.json";
    my $fetched = $lines =~ /=fetched/;
    $t->write_file($file, $keys eq 'text' ? 'no set' : $keys eq 'empty' ? '[]'
        : jwks(map { @{ $SET{$_} // [] } } split / /, $keys))
        if $keys ne 'absent';
    my $from = $keys eq 'compressed' ? '%%TO_gzip%%' : "alias %%DIR%%/$file;";
    $server .= "location = /_keys$n { internal; platform_gateway_access public; $from"
        . " subrequest_output_buffer_size 64k; }\n" if $fetched;
    my @more = map {"$_;"} $lines =~ /=((?:issuer|audience|algorithms) [^;]*)/g;
    my $issuers = join ' ', $lines ? $b->{iss}
        : ('issuer', map {"https://test$_.issuer.example.com"} 1 .. 10);
    unshift @more, "issuer $issuers;" if !grep {/^issuer/} @more;
    push @more, 'revocations zone=revoked:1m uri=/_feed interval=50ms;' if $lines =~ /=revoked/;
    $http .= "platform_gateway_trust b$n { @more "
        . ($fetched ? "key_location /_keys$n;" : "key_file $file;") . " }\n";
    return $b;
}

for my $case (grep { $_->{told} && $_->{ours} ne 'dies' } @cases) {
    my $b = block($case->{block});
    $case->{iss} = $b->{iss};
    my $text = "platform_gateway_trusted $b->{name}; $case->{location}";
    $case->{path} = $path{$text} //= do {
        my $path = '/case' . keys %path;
        $server .= "location = $path { $text empty_gif; }\n";
        $path;
    };
}

$t->write_file('broken.json', jwks(@{ $SET{broken} }));
my $feed = revocations_feed($t);
$feed->set(all => [ revoked_subject('test2.identifier', time + 5) ]);
$t->issuer(body => jwks(jwt_key('a')));
$t->issuer(name => 'gzip', body => jwks(@ALL), headers => [ 'Content-Encoding' => 'gzip' ]);
$t->gateway_conf(<<"SERVER", http => "platform_gateway_key_wait 200ms;\n$http");
platform_gateway_access token;
location = /_feed {
    internal;
    platform_gateway_access public;
    proxy_pass http://127.0.0.1:%%PORT_feed%%;
    subrequest_output_buffer_size 1m;
}
$server
SERVER
my $port = $t->start_gateway;

# -- each is asked

sub answer ($case, $name) {
    my ($where, $of) = $name =~ /^([?\@]?)(.*)$/;
    return http_get($port, $case->{path})->status if $of eq '.';
    my $token = $of eq 'TOKEN' ? $of : $of eq 'EMPTY' ? '' : token($of, $case->{iss});
    return http_get($port, $case->{path} . ($where eq '?' ? "?token=$token" : ''),
        headers => [ $where eq '@' ? (Cookie => "token=$token") : $where eq '?' ? ()
            : (Authorization => "Bearer $token") ])->status;
}

sub starts ($case) {
    my $keys = $case->{location} =~ /_key_/;
    my ($ok) = $t->location_test(http => "platform_gateway_trust b { issuer https://b.test;"
        . " key_file %%DIR%%/keys0.json; }", server => $keys ? $case->{location} : '',
        location => 'platform_gateway on; platform_gateway_access token; empty_gif;'
            . ($keys ? '' : $case->{location}));
    return $ok ? 'starts' : 'dies';
}

my %count;
for my $case (@cases) {
    my ($theirs, $ours, $why) = @$case{qw(theirs ours why)};
    my $n = $theirs =~ /x/ ? eval join '+', $theirs =~ /x(\d+)/g : 1;
    $count{all} += $n;
    if (!$case->{told}) {
        $count{untold} += $n;
    } else {
        my $got;
        eventually(sub {
            $got = $ours eq 'dies' ? starts($case)
                : join ' ', map { answer($case, $_) } @{ $case->{tokens} };
            return $got eq $ours;
        }, $case->{block} =~ /=(?:fetched|revoked)/ ? () : 0.01);
        is $got, $ours, "$case->{name}: $ours" . ($why ? " ($WHY{$why})" : '');
        $count{ $theirs eq $ours ? 'same' : $why eq 'code' ? 'code' : 'other' }++;
    }
    fail "$case->{name}: no reason" if ($theirs eq $ours) == defined $why || $why && !$WHY{$why};
}

is_deeply \%count, { all => 378, same => 131, code => 29, other => 53, untold => 165 },
    'of 378 cases 131 are the same, 29 by another status, 53 differ, 165 cannot be told';

$t->done;

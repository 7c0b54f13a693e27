# Every way to confuse issuers, algorithms, keys, kids and typs: a token passes where its
# issuer's own key of that kid signed it, with the algorithm of that key and a typ that
# the issuer allows, and nowhere else.  What should happen is said by the oracle here.
# Then every way to confuse the keys that tokens are bound to with each other, with those
# of issuers, and the places where a token can stand.

use JSON::PP ();
use List::Util qw(any first uniq);

use Platform::Test;

my $t = Platform::Test->new;

# The keys of each issuer by kid.  The same kids, and under them the same types of keys,
# come in several sets; those that begin with the issuer's name are in one alone.  The
# last has keys in no set.
my %SET = (
    own => { k1 => 'RS256', k2 => 'ES256', own3 => 'EdDSA' },
    rsa => { k1 => 'RS256', k2 => 'PS256', rsa3 => 'RS512' },
    ec  => { k1 => 'ES256', k2 => 'ES256', ec3 => 'ES256' },
    ed  => { k1 => 'EdDSA', k2 => 'EdDSA', ed3 => 'EdDSA' },
    mix => { k1 => 'RS256', k2 => 'ES256', k3 => 'EdDSA', mix3 => 'PS256' },
    stranger => { k1 => 'RS256', k2 => 'ES256', k3 => 'EdDSA' },
);
my @ISSUERS = grep { $_ ne 'stranger' } sort keys %SET;
my %AT_JWT = (ec => 1, mix => 1);
my %ALLOWS = (ec => [ qw(ES256 RS256) ], ed => ['EdDSA'], mix => [ qw(RS256 ES256 EdDSA) ]);
my @TYPS = ('JWT', 'at+jwt', undef, 'dpop+jwt');
my @MADE = qw(RS256 RS512 PS256 ES256 EdDSA);   # algorithms that keys here sign with
my %FAMILY = (RS256 => 'RSA', RS512 => 'RSA', PS256 => 'RSA', ES256 => 'EC', EdDSA => 'OKP');
my %ISS = (own => $Platform::Test::Jwt::ISSUER, map { $_ => "https://$_.test/" } qw(rsa ec ed mix));

my %key;
for my $of (keys %SET) {
    $key{$of}{$_} = jwt_key("confused-$of-$_", alg => $SET{$of}{$_}, kid => $_)
        for keys %{ $SET{$of} };
}
my @signers = map { my $of = $_; map { [ $of, $_ ] } sort keys %{ $SET{$of} } } sort keys %SET;

sub set_of ($of) { return jwks(@{ $key{$of} }{ sort keys %{ $key{$of} } }) }

$t->write_file("$_.json", set_of($_)) for @ISSUERS;
$t->issuer(body => set_of('own'));
my $HTTP = join '', 'keepalive_requests 100000; platform_gateway_proof zone=proofs:1m;', map {
    my $rules = ($AT_JWT{$_} ? 'typ at+jwt;' : '')
        . ($ALLOWS{$_} ? "algorithms @{ $ALLOWS{$_} };" : '');
    "platform_gateway_trust $_ { issuer $ISS{$_}; key_file $_.json; $rules }\n"
} grep { $_ ne 'own' } @ISSUERS;
$t->gateway_conf(<<'SERVER', http => $HTTP);
platform_gateway_access token;
platform_gateway_token_from cookie=at subprotocol;
location / { empty_gif; }
location /trust { platform_gateway_allow_confirmation on; empty_gif; }
location /accept { platform_gateway_proof_origin https://a.test http://a.test:81; empty_gif;
    location /accept/mix { platform_gateway_trusted mix; empty_gif; }
    location /accept/require { platform_gateway_bound require; empty_gif; } }
SERVER
my $port = $t->start_gateway;

# -- the oracle: what is wrong with a token, by the reasons of the log

# The algorithm that a signer uses where the header says $alg: that one if its key can.
sub made_by ($of, $kid, $alg) {
    my $own = $SET{$of}{$kid};
    return ($FAMILY{$alg} // '') eq $FAMILY{$own} ? $alg : $own;
}

# Whether an issuer has tokens of that algorithm.
sub allowed ($iss, $alg) { return any { $_ eq $alg } @{ $ALLOWS{$iss} // \@MADE } }

sub faults (%c) {
    my ($iss, $alg, $typ, $kid) = @c{qw(iss alg typ kid)};
    my ($of, $signed) = @{ $c{signer} };
    my $needs = $AT_JWT{$iss} ? qr/^at\+jwt$/ : qr/^(?:JWT|at\+jwt)$/;
    my @faults = ($alg eq 'none' ? 'token_shape' : (), allowed($iss, $alg) ? () : 'token_alg',
        ($typ // ($AT_JWT{$iss} ? '' : 'JWT')) =~ $needs ? () : 'token_typ');
    # Without a kid it has the only key of its type, where the set is a file.
    return (@faults, 'token_kid') if !defined $kid && $iss eq 'own';
    my @only = grep { $FAMILY{ $SET{$iss}{$_} } eq ($FAMILY{$alg} // '') } keys %{ $SET{$iss} };
    $kid //= @only == 1 ? $only[0] : '';
    my $has = $SET{$iss}{$kid} // return (@faults, 'kid_unknown');
    return uniq @faults, $has eq $alg ? () : 'token_alg',
        $FAMILY{$alg} && $of eq $iss && $signed eq $kid && made_by($of, $signed, $alg) eq $has
            ? () : 'token_signature';
}

my $exp = time + 900;
my $payload = jwt_claims('branch', iat => time - 600, exp => $exp);

# As good as who has that key can make it; the stranger brings his own in the header.
sub token (%c) {
    my ($of, $kid) = @{ $c{signer} };
    my $signer = $key{$of}{$kid};
    my %header = (alg => $c{alg}, typ => $c{typ}, kid => $c{kid},
        $of eq 'stranger' ? (jwk => $signer->jwk(kid => $c{kid})) : ());
    my %by = $c{alg} eq 'none' ? () : $c{alg} eq 'HS256'
        ? (secret => ($key{ $c{iss} }{ $c{kid} // '' } // $signer)->public_pem)
        : (key => $signer->as($c{kid}, made_by($of, $kid, $c{alg})));
    return jwt_sign(%by, header => \%header, payload => { %$payload, iss => $ISS{ $c{iss} } });
}

# Each issuer, each signer, each algorithm that the signer can use and one of each other
# sort; the kids: the signer's own, another one of the issuer, none, and of the issuer's own
# signers one that another issuer alone has and one that nobody has.
my @cases;
for my $iss (@ISSUERS) {
    for my $signer (@signers) {
        my ($of, $own_kid) = @$signer;
        my $alg = $SET{$of}{$own_kid};
        my @algs = ($alg, first { $FAMILY{$_} ne $FAMILY{$alg} } @MADE);
        push @algs, grep { $FAMILY{$_} eq $FAMILY{$alg} && $_ ne $alg } @MADE if $of eq $iss;
        push @algs, qw(HS256 none) if $of eq $iss;
        my $another = first { $_ ne $own_kid } sort keys %{ $SET{$iss} };
        my $elsewhere = (first { $_ ne $iss } reverse @ISSUERS) . '3';
        for my $kid (uniq $own_kid, $another, $of eq $iss ? ($elsewhere, 'nobody') : (), undef) {
            for my $case_alg (@algs) {
                # What is wrong in two ways at least already needs no typ of each kind.
                my @typs = ($kid // '') ne $own_kid ? $TYPS[ @cases % @TYPS ]
                    : $of eq $iss ? @TYPS : @TYPS[ 0, 1 ];
                push @cases, map { { iss => $iss, signer => $signer, alg => $case_alg, kid => $kid,
                    typ => $_ } } @typs;
            }
        }
    }
}

my $http = Platform::Test::Http->new(port => $port);
for my $case (@cases) {
    $case->{faults} = [ faults(%$case) ];
    $case->{res} = $http->request('GET', '/', headers => [ Authorization => 'Bearer '
        . token(%$case) ]);
}
$t->logged($cases[-1]{res});
my %reason = $t->nginx->access_log =~ /"requestId":"(\w+)".*?"reason":"(\w+)"/g;

sub name ($c) {
    return join ' ', "$c->{iss}:", map { $_ // '-' } @$c{qw(alg kid typ)}, 'by', @{ $c->{signer} };
}

my (%passed, %alone, @wrong, $refused);
for my $case (@cases) {
    my @faults = @{ $case->{faults} };
    my $is = $reason{ $case->{res}->header('X-Request-Id') } // '';
    my $status = $case->{res}->status;
    my $good = @faults ? $status == 401 && any { $_ eq $is } @faults : $status == 200;
    push @wrong, name($case) . ": $status $is, not " . (join('|', @faults) || 200) if !$good;
    $passed{ $case->{iss} }{ $case->{alg} }++ if !@faults;
    $alone{ $case->{iss} }{ $faults[0] }++ if @faults == 1;
    $refused++ if @faults;
}
is_deeply \@wrong, [], scalar(@cases) . ' tokens: each as the oracle says';
cmp_ok $refused, '>=', 400, 'many are to be refused';
for my $iss (@ISSUERS) {
    my %algs = map { $_ => 1 } grep { allowed($iss, $_) } values %{ $SET{$iss} };
    is_deeply [ sort keys %{ $passed{$iss} } ], [ sort keys %algs ],
        "$iss: one passes of each of its algorithms";
    is_deeply [ sort keys %{ $alone{$iss} } ],
        [ qw(kid_unknown token_alg), $iss eq 'own' ? 'token_kid' : (),
            qw(token_signature token_typ) ],
        "$iss: each check refuses one that is good otherwise";
}

# The same kid and the same type of key in two sets: the other's signature is all that is
# wrong.
my %twins = map { ("$_->{signer}[0] as $_->{iss}" => 1) } grep { $_->{signer}[0] ne $_->{iss}
    && "@{ $_->{faults} }" eq 'token_signature' } @cases;
ok $twins{$_}, "tried: $_, by kid and type of key" for 'own as mix', 'mix as own', 'mix as rsa',
    'rsa as own', 'stranger as own', 'stranger as mix';

# -- by binding: what a token is bound to, where it stands, and who proves what

# The second key is also one by which an issuer signs.
my %by = (A => jwt_key('confused-client', alg => 'EdDSA'), B => $key{ec}{k2});
my ($jkt, $other) = map { $by{$_}->jkt } qw(A B);
my @low = split //, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
my $last = first { $low[$_] eq substr $jkt, -1 } 0 .. 63;

# name => [raw cnf, who can prove it]; nobody can prove what is not one thumbprint alone.
my %cnf = (
    unbound => [], A => [ qq({"jkt":"$jkt"}), 'A' ], B => [ qq({"jkt":"$other"}), 'B' ],
    escaped => [ qq({"\\u006akt":"\\u00@{[ sprintf '%02x', ord $jkt ]}@{[ substr $jkt, 1 ]}"}), 'A' ],
    map({ ($_->[0] => [ $_->[1], '' ]) }
        [ certificate => qq({"x5t#S256":"$jkt"}) ], [ both => qq({"jkt":"$jkt","x5t#S256":"$jkt"}) ],
        [ 'key itself' => '{"jwk":' . JSON::PP::encode_json($by{A}->jwk) . '}' ],
        [ null => 'null' ], [ 'null inside' => '{"jkt":null}' ], [ true => 'true' ], [ string => qq("$jkt") ],
        [ array => qq([{"jkt":"$jkt"}]) ], [ 'array inside' => qq({"jkt":["$jkt"]}) ],
        [ pair => qq(["jkt","$jkt"]) ], [ nothing => '{}' ], [ empty => '{"jkt":""}' ],
        [ padded => qq({"jkt":"$jkt="}) ], [ 'a space' => qq({"jkt":" $jkt"}) ],
        [ 'other spare bits' => qq({"jkt":"@{[ substr $jkt, 0, -1 ]}$low[ $last ^ 1 ]"}) ],
        [ 'other case' => qq({"JKT":"$jkt"}) ], [ short => qq({"jkt":"@{[ substr $jkt, 0, -1 ]}"}) ],
        [ long => qq({"jkt":"${jkt}AA"}) ], [ hex => qq({"jkt":"@{[ '00' x 32 ]}"}) ],
        [ nested => qq({"cnf":{"jkt":"$jkt"}}) ]),
);
my @WHERE = qw(Bearer DPoP cookie subprotocol);
my @PROOFS = (qw(A B none), 'A for another token');
my @PATHS = qw(/off /trust /accept /accept/mix /accept/require);

# A faulty signature: that of another issuer, of the same kid.
my %wrong = (own => 'mix', mix => 'own', ec => 'mix');
my (@bound, %token);
for my $iss (sort keys %wrong) {
    for my $signer ($iss, $wrong{$iss}) {
        my $k = $signer eq $iss ? $key{$iss}{k2} : $key{$signer}{k2};
        for my $cnf (sort $signer eq $iss ? keys %cnf : qw(unbound A certificate)) {
            my $claims = JSON::PP::encode_json({ %$payload, iss => $ISS{$iss} });
            $claims =~ s/\}$/,"cnf":$cnf{$cnf}[0]}/ if defined $cnf{$cnf}[0];
            $token{$iss}{$signer}{$cnf} = jwt_sign(key => $k, payload => $claims,
                header => { typ => 'at+jwt' });
            # What nobody can prove needs no issuer, place and proof of each kind.
            my $all = $cnf{$cnf}[1] // 'x';
            for my $where ($all ? @WHERE : qw(Bearer DPoP)) {
                for my $proof ($all ? @PROOFS : qw(A none)) {
                    push @bound, map { { iss => $iss, signer => $signer, cnf => $cnf, where => $where,
                        proof => $proof, path => $_ } } @PATHS;
                }
            }
        }
    }
}

# The reasons for which it has to be refused; the first alone if nothing else is looked at.
sub bound_faults ($c) {
    my ($iss, $where, $path) = @$c{qw(iss where path)};
    my ($raw, $prover) = @{ $cnf{ $c->{cnf} } };
    my $checks = $path =~ /accept/;
    return 'token_missing' if $where eq 'DPoP' && !$checks;
    my @faults = ($path =~ /mix/ && $iss ne 'mix' ? 'token_issuer' : (),
        $c->{signer} ne $iss ? 'token_signature' : ());
    return @faults, $path ne '/trust' && defined $raw && !($checks && $prover) ? 'token_bound'
        : $path eq '/trust' ? ()
        : !defined $raw ? ($where eq 'DPoP' || $path =~ /require/ ? 'token_unbound' : ())
        : $where ne 'DPoP' ? 'token_bound' : $c->{proof} eq 'none' ? 'proof_missing'
        : $c->{proof} ne $prover ? 'proof_invalid' : ();
}

sub ask_bound ($c) {
    my $text = $token{ $c->{iss} }{ $c->{signer} }{ $c->{cnf} };
    my ($by) = $c->{proof} =~ /^([AB])\b/;
    my $for = $c->{proof} =~ /another/ ? $text . 'A' : $text;
    my %place = (cookie => [ Cookie => "at=$text" ], subprotocol => [ 'Sec-WebSocket-Protocol' => "bearer.$text" ]);
    $c->{shown} //= defined $by ? [ DPoP => dpop_proof($by{$by}, GET => "https://a.test$c->{path}", token => $for) ] : [];
    return $http->request('GET', $c->{path}, headers => [
        @{ $place{ $c->{where} } // [ Authorization => "$c->{where} $text" ] }, @{ $c->{shown} } ]);
}

# In an order in which each may find the verdict of another place in the cache.
@bound = map { $bound[ $_ * 7919 % @bound ] } 0 .. $#bound;
ok eventually(sub { ask_bound({ iss => 'own', signer => 'own', cnf => 'A', where => 'DPoP', proof => 'A',
    path => '/accept' })->status == 200 }), 'proofs from after the start';
my @again;
for my $case (@bound) {
    $case->{faults} = [ bound_faults($case) ];
    $case->{res} = ask_bound($case);
    next if @{ $case->{faults} } || $case->{where} ne 'DPoP';
    push @again, { %$case, faults => ['proof_replayed'] };
    $again[-1]{res} = ask_bound($again[-1]);
}
$t->logged($again[-1]{res});
$t->logged($bound[-1]{res});
%reason = $t->nginx->access_log =~ /"requestId":"(\w+)".*?"reason":"(\w+)"/g;

my (%told, %good);
@wrong = ();
for my $case (@bound, @again) {
    my @faults = @{ $case->{faults} };
    my $is = $reason{ $case->{res}->header('X-Request-Id') } // '';
    my $status = $case->{res}->status;
    my $as_said = @faults ? $status == 401 && any { $_ eq $is } @faults : $status == 200;
    push @wrong, join ' ', map({ "$_ $case->{$_}" } qw(iss signer cnf where proof path)),
        "is $status $is, not", join('|', @faults) || 200 if !$as_said;
    $told{ $faults[0] }++ if @faults == 1;
    $good{"$case->{path} $case->{where} " . ($cnf{ $case->{cnf} }[1] // 'unbound')}++ if !@faults;
}
is_deeply \@wrong, [], @bound + @again . ' ways to bind and to prove: each as the oracle says';
cmp_ok +@bound, '>=', 2000, 'many';
is_deeply [ sort keys %told ], [ qw(proof_invalid proof_missing proof_replayed token_bound
    token_issuer token_missing token_signature token_unbound) ], 'each fault stands alone somewhere';
is_deeply [ sort grep { !/trust/ } keys %good ], [ sort map({ my $path = $_; map { "$path $_ unbound" }
    $path =~ /require/ ? () : qw(Bearer cookie subprotocol) } grep { $_ ne '/trust' } @PATHS),
    map { my $path = $_; map { "$path DPoP $_" } qw(A B) } grep {/accept/} @PATHS ],
    'what passes: bound with its proof, or unbound where that is enough';

$t->done;

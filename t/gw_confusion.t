# Every way to confuse issuers, algorithms, keys, kids and typs: a token passes where its
# issuer's own key of that kid signed it, with the algorithm of that key and a typ that
# the issuer allows, and nowhere else.  What should happen is said by the oracle here.
# Then every way to confuse the keys that tokens are bound to with each other, with those
# of issuers, and the places where a token can stand.

use Crypt::Digest::SHA256 qw(sha256);
use JSON::PP ();
use List::Util qw(any first uniq);

use MIME::Base64 qw(encode_base64);
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
my $BINDING = <<'SERVER';
platform_gateway_access token;
platform_gateway_token_from cookie=at subprotocol;
location / { empty_gif; }
location /accept { platform_gateway_proof_origin https://a.test http://a.test:81; empty_gif;
    location /accept/mix { platform_gateway_trusted mix; empty_gif; }
    location /accept/require { platform_gateway_bound require; empty_gif; } }
SERVER
# The same behind a proxy that passes certificates on.
$t->gateway_conf(<<"SERVER", http => <<"HTTP");
$BINDING
location /trust { platform_gateway_allow_confirmation on; empty_gif; }
SERVER
$HTTP
server { listen 127.0.0.1:%%PORT_behind%%; large_client_header_buffers 2 24k; platform_gateway on;
    platform_gateway_client_certificate header 127.0.0.1; $BINDING }
HTTP
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

# The second key is also one by which an issuer signs; certificates are hashed alone.
my %by = (A => jwt_key('confused-client', alg => 'EdDSA'), B => $key{ec}{k2});
my ($jkt, $other) = map { $by{$_}->jkt } qw(A B);
my $x5t = b64url(sha256('certificate C'));
my @digits = ('A' .. 'Z', 'a' .. 'z', 0 .. 9, '-', '_');
my $last = first { $digits[$_] eq substr $jkt, -1 } 0 .. 63;
my ($begin, $end) = (substr($jkt, 0, -1), substr $jkt, 1);
my $spelt = sprintf '{"\u006akt":"\u00%02x%s"}', ord $jkt, $end;

# name => [raw cnf, the key that can prove it, the certificate that can]
my %cnf = (
    unbound => [], A => [ qq({"jkt":"$jkt"}), 'A' ], B => [ qq({"jkt":"$other"}), 'B' ],
    escaped => [ $spelt, 'A' ], C => [ qq({"x5t#S256":"$x5t"}), '', 'C' ],
    'certificate as key' => [ qq({"jkt":"$x5t"}), 'nobody' ],
    'key as certificate' => [ qq({"x5t#S256":"$jkt"}), '', 'nobody' ],
    map { $_->[0] => [ $_->[1], '', '' ] }
        [ both => qq({"jkt":"$jkt","x5t#S256":"$x5t"}) ], [ 'and more' => qq({"jkt":"$jkt","x":1}) ],
        [ 'C and more' => qq({"x5t#S256":"$x5t","x":1}) ], [ 'C short' => qq({"x5t#S256":"x"}) ],
        [ 'C array' => qq({"x5t#S256":["$x5t"]}) ], [ 'C null' => '{"x5t#S256":null}' ],
        [ 'C other case' => qq({"x5t#s256":"$x5t"}) ], [ 'C by SHA-1' => qq({"x5t":"$x5t"}) ],
        [ 'key itself' => '{"jwk":' . JSON::PP::encode_json($by{A}->jwk) . '}' ],
        [ null => 'null' ], [ 'null inside' => '{"jkt":null}' ], [ true => 'true' ],
        [ string => qq("$jkt") ], [ array => qq([{"jkt":"$jkt"}]) ], [ pair => qq(["jkt","$jkt"]) ],
        [ 'array inside' => qq({"jkt":["$jkt"]}) ], [ nothing => '{}' ], [ empty => '{"jkt":""}' ],
        [ padded => qq({"jkt":"$jkt="}) ], [ 'a space' => qq({"jkt":" $jkt"}) ],
        [ 'other spare bits' => qq({"jkt":"$begin$digits[ $last ^ 1 ]"}) ],
        [ 'other case' => qq({"JKT":"$jkt"}) ], [ short => qq({"jkt":"$begin"}) ],
        [ long => qq({"jkt":"${jkt}AA"}) ], [ hex => qq({"jkt":"@{[ '00' x 32 ]}"}) ],
        [ nested => qq({"cnf":{"jkt":"$jkt"}}) ],
);
my @WHERE = qw(Bearer DPoP cookie subprotocol);
my @PROOFS = (qw(A B none), 'A for another token');
my @PATHS = qw(/off /trust /accept /accept/mix /accept/require);

# A wrong signature is by the key of that kid of another issuer.
my %wrong = (own => 'mix', mix => 'own', ec => 'mix');
my (@bound, %token);
sub add_bound ($of, $paths, $proofs, $certificates) {
    for my $path (@$paths) {
        for my $proof (@$proofs) {
            push @bound, map { { %$of, path => $path, proof => $proof, certificate => $_ } }
                @$certificates;
        }
    }
    return;
}
for my $iss (sort keys %wrong) {
    for my $signer ($iss, $wrong{$iss}) {
        for my $cnf (sort $signer ne $iss ? qw(unbound A C)
            : $iss eq 'mix' ? keys %cnf : qw(unbound A B both)) {
            my ($raw, @provers) = @{ $cnf{$cnf} };
            my $claims = JSON::PP::encode_json({ %$payload, iss => $ISS{$iss} });
            $claims =~ s/\}$/,"cnf":$raw}/ if defined $raw;
            $token{$iss}{$signer}{$cnf} = jwt_sign(key => $key{$signer}{k2}, payload => $claims,
                header => { typ => 'at+jwt' });
            # What nobody can prove, or did not sign, is not tried in each place with each proof.
            my $all = $signer eq $iss && (!defined $raw || any {$_} @provers);
            for my $where ($all ? @WHERE : qw(Bearer DPoP)) {
                my $of = { iss => $iss, signer => $signer, cnf => $cnf, where => $where };
                add_bound({ %$of, server => 'gateway' }, \@PATHS, $all ? \@PROOFS : [qw(A none)], ['C'])
                    if $cnf !~ /^C /;
                add_bound({ %$of, server => 'behind' }, [ grep { !/mix|trust/ } @PATHS ],
                    [qw(A none)], $all ? [ qw(C D), '' ] : ['C']) if $iss eq 'mix';
            }
        }
    }
}

# The reasons for which it has to be refused.
sub bound_faults ($c) {
    my ($iss, $where, $path) = @$c{qw(iss where path)};
    my ($raw, $prover, $certified) = @{ $cnf{ $c->{cnf} } };
    $prover = '' if $path !~ /accept/;
    $certified = '' if $c->{server} ne 'behind';
    return 'token_missing' if $where eq 'DPoP' && $path !~ /accept/;
    my @faults = ($path =~ /mix/ && $iss ne 'mix' ? 'token_issuer' : (),
        $c->{signer} ne $iss ? 'token_signature' : ());
    return @faults, !defined $raw ? ($where eq 'DPoP' || $path =~ /require/ ? 'token_unbound' : ())
        : $certified ? ($where eq 'DPoP' ? 'token_unbound'
            : $c->{certificate} ne $certified ? 'token_certificate' : ())
        : $path eq '/trust' ? ()
        : !$prover || $where ne 'DPoP' ? 'token_bound' : $c->{proof} eq 'none' ? 'proof_missing'
        : $c->{proof} ne $prover ? 'proof_invalid' : ();
}

my %to = (gateway => $http, behind => Platform::Test::Http->new(port => $t->port('behind')));
sub ask_bound ($c) {
    my $text = $token{ $c->{iss} }{ $c->{signer} }{ $c->{cnf} };
    my ($by) = $c->{proof} =~ /^([AB])\b/;
    my $for = $c->{proof} =~ /another/ ? $text . 'A' : $text;
    my %place = (cookie => [ Cookie => "at=$text" ],
        subprotocol => [ 'Sec-WebSocket-Protocol' => "bearer.$text" ]);
    $c->{shown} //= [ $by ? (DPoP => dpop_proof($by{$by}, GET => "https://a.test$c->{path}",
        token => $for)) : () ];
    my $der = encode_base64("certificate $c->{certificate}", '');
    return $to{ $c->{server} }->request('GET', $c->{path}, headers => [ @{ $c->{shown} },
        @{ $place{ $c->{where} } // [ Authorization => "$c->{where} $text" ] },
        $c->{certificate} ? ('Client-Cert' => ":$der:") : () ]);
}

# In an order in which each may find the verdict of another place in the cache.
@bound = map { $bound[ $_ * 7919 % @bound ] } 0 .. $#bound;
ok eventually(sub { ask_bound({ iss => 'own', signer => 'own', cnf => 'A', where => 'DPoP',
    proof => 'A', path => '/accept', server => 'gateway', certificate => '' })->status == 200 }),
    'proofs from after the start';
my @again;
for my $case (@bound) {
    $case->{faults} = [ bound_faults($case) ];
    $case->{res} = ask_bound($case);
    next if @{ $case->{faults} } || $case->{where} ne 'DPoP';
    push @again, { %$case, faults => ['proof_replayed'] };
    $again[-1]{res} = ask_bound($again[-1]);
}
$t->logged($_->[-1]{res}) for \@again, \@bound;
%reason = $t->nginx->access_log =~ /"requestId":"(\w+)".*?"reason":"(\w+)"/g;

my (%told, %good);
@wrong = ();
for my $case (@bound, @again) {
    my @faults = @{ $case->{faults} };
    my $is = $reason{ $case->{res}->header('X-Request-Id') } // '';
    my $status = $case->{res}->status;
    my $as_said = @faults ? $status == 401 && any { $_ eq $is } @faults : $status == 200;
    push @wrong, join ' ', map({ "$_ $case->{$_}" } qw(server iss signer cnf where proof certificate
        path)), "is $status $is, not", join('|', @faults) || 200 if !$as_said;
    $told{ $faults[0] }++ if @faults == 1;
    $good{"$case->{server} $case->{path} $case->{where} $case->{cnf}"}++
        if !@faults && $case->{path} ne '/trust';
}
is_deeply \@wrong, [], @bound + @again . ' ways to bind and to prove: each as the oracle says';
cmp_ok +@bound, '>=', 2000, 'many';
is_deeply [ sort keys %told ], [ qw(proof_invalid proof_missing proof_replayed token_bound
    token_certificate token_issuer token_missing token_signature token_unbound) ],
    'each fault stands alone somewhere';
my @passes;
for my $server (sort keys %to) {
    for my $path (grep { $_ ne '/trust' && !("$server$_" =~ /behind.*mix/) } @PATHS) {
        push @passes, map { "$server $path DPoP $_" } 'A', 'escaped',
            $server eq 'gateway' ? 'B' : () if $path =~ /accept/;
        for my $where (qw(Bearer cookie subprotocol)) {
            push @passes, "$server $path $where unbound" if $path !~ /require/;
            push @passes, "$server $path $where C" if $server eq 'behind';
        }
    }
}
is_deeply [ sort keys %good ], [ sort @passes ],
    'what passes: with its own proof or certificate, or unbound where that is enough';

$t->done;

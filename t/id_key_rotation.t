# docs/key-rotation.md with variables alone, followed step by step behind a gateway, with
# two identity processes: every token is good for as long as it should be.  (Under load:
# e2e_keys_rotate.t.)  What goes wrong keeps the old keys and says why; what all is wrong:
# check_keys.

use Platform::Test;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my ($old, $new, $third) = map { jwt_key($_) } qw(identity next third);
my $file = $t->dir . '/id.env';

# identity.env with these keys; the file is replaced as an editor does.
sub env_file (%set) {
    $t->write_file('id.env.new', join '', map {"$_=$set{$_}\n"} sort keys %set);
    rename "$file.new", $file or die "rename: $!";
}

sub signing ($key, @additional) {
    return (
        PLATFORM_JWT_KEY_ID             => $key->kid,
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64,
        PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => join(',',
            map { $_->kid . '=' . $_->public_base64 } @additional),
    );
}

my %no_keys = map { $_ => undef } keys %{ { signing($old) } };
env_file(signing($old));
my %env = (
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_REQUEST_TIMEOUT => '12s',
);
my @identity = map { $t->identity(name => $_, %env, %no_keys, args => [ '--env-file', $file ]) }
    qw(a b);
my $stack = $t->full_stack(identity => \@identity, env => \%env, key_age => '1s');

# What those, or all, say of the next keys, each once.
sub reload (@which) {
    my %said;
    for my $identity (@which ? @which : @identity) {
        my $before = () = $identity->log_text =~ /"keys\./g;
        $identity->process->signal('HUP');
        eventually(sub { $before < (() = $identity->log_text =~ /"keys\./g) });
        $said{ ($identity->log_text =~ /"(keys\.\w+)/g)[-1] } = 1;
        sleep 0.3 unless @which;    # processes differ for a while
    }
    return join ' ', sort keys %said;
}

sub asks ($identity, $method, $path, @body) {
    return $t->fcgi($identity->address)->request($method => $path, @body);
}

sub kids ($identity) {
    return [ asks($identity, GET => '/.well-known/jwks.json')->{body} =~ /"kid":"([^"]+)"/g ];
}

sub logs_in ($identity) {
    return asks($identity, POST => '/api/auth/login', body => qq({"account":"one\@demo.test",)
        . qq("credential":"$Platform::Test::Stack::CREDENTIAL"}))->{status};
}

# -- the runbook

sub kid_of ($token) { return (jwt_decode($token))[0]{kid} }

sub code_of ($token) { return $stack->current_context($token)->code }

my ($session, @access) = $stack->login('one')->json;
for my $step ([ 'before', $old ], [ '1. publish', $old, $new ], [ '2. sign', $new, $old ],
    [ '3. retire', $new ]) {
    my ($name, @keys) = @$step;
    env_file(signing(@keys));
    is reload(), 'keys.reloaded', $name if $name ne 'before';
    is_deeply kids($_), [ map { $_->kid } @keys ], "$name: what is published" for @identity;
    # A step is over when every gateway has what is published.
    ok eventually(sub { code_of($access[0] // $session->{accessToken});
        (metrics_scrape($t->port('metrics'), '/internal/metrics')
            ->{platform_gateway_key_set_keys} // 0) == @keys }), "$name: every gateway has it";
    my $res = $stack->refresh($session->{refreshToken});
    is $res->status, 200, "$name: a refresh token of the step before";
    $session = $res->json;
    is kid_of($session->{$_}), $keys[0]->kid, "$name: $_" for qw(accessToken refreshToken);
    push @access, $session->{accessToken};
    my @live = grep { my $kid = kid_of($_); grep { $_->kid eq $kid } @keys } @access;
    is_deeply [ map { $stack->current_context($_)->status } @live ], [ (200) x @live ],
        "$name: access tokens, of before too";
}
is code_of($access[0]), 'GATEWAY_TOKEN_INVALID', 'one of the old key';

# -- new keys that are no good ------------------------------------------------------

my $identity = $identity[1];
env_file(signing($third), PLATFORM_JWT_PUBLIC_KEY_BASE64 => $new->public_base64);
is reload($identity), 'keys.reload_failed', 'halves of two keys: refused';
like $identity->log_text, qr/"PLATFORM_JWT_PUBLIC_KEY_BASE64: [^"]*; the old keys stay"/,
    'one line says why';
is_deeply kids($identity), [ $new->kid ], 'the old keys are published';
rename $file, "$file.away" or die "rename: $!";
is reload($identity), 'keys.reload_failed', 'no file: refused';
like $identity->log_text, qr/id\.env: cannot open/, 'and says so';
unlike $identity->log_text, qr/@{[ substr $third->private_base64, 0, 40 ]}/, 'no key in the log';
is logs_in($identity), 200, 'after all that logins succeed';
env_file(signing($third, $new));
is reload($identity), 'keys.reloaded', 'and good keys are taken';

# Keys of the environment cannot be read again.

my $plain = $t->identity(name => 'plain');
$plain->process->signal('HUP');
ok eventually(sub { $plain->log_text =~ /no --env-file to read keys from/ }),
    'without --env-file SIGHUP says that it cannot';
is logs_in($plain), 200, 'and changes nothing';

$t->done;

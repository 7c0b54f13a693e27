# docs/your-service.md on the assertion: its keys, its configuration and its service as
# they stand, with npm's jose.  The key is replaced while requests come, and none of them
# is refused by the service.

use Crypt::PK::ECC;
use Platform::Test;
use Platform::Test::Env;
use Platform::Test::Page qw(steps);

my $node = Platform::Test::Env::node();
my ($t, $key) = Platform::Test->gateway;
my $dir = $t->dir;
my $page = $t->read_file($t->root . '/docs/your-service.md') =~ s/.*^## Make sure[^\n]*//msr;

# As the page has them, and what they are here.
my %here = ('/etc/platform-gateway' => "$dir/etc", 'http://127.0.0.1:8080' =>
    'http://127.0.0.1:' . $t->port('gateway'), 8082 => $t->port('service'));
sub ours ($text) {
    $text =~ s/\Q$_\E/$here{$_}/g for reverse sort { length $a <=> length $b } keys %here;
    return $text;
}
mkdir "$dir/etc";

# Its commands in a shell; a reload is the test's.
my ($give, @replace) = map { $_->[0] } map { steps($t->root . '/docs/your-service.md', $_) }
    'Give the gateway a key', 'Replace the key';
is scalar @replace, 3, 'the page has its steps';
my $functions = $give =~ s/^new_key first.*\n//mr =~ s/^sudo install.*\n//mr;
sub shell ($script) {
    my $path = $t->write_file('script.sh', ours("set -e\nsudo() { \"\$@\"; }\n$functions$script"));
    return scalar qx{sh $path 2>&1};
}
is shell($give =~ s/.*^\}\n//msr =~ s/^/sudo install -d -m 700 \$keys\n/r), '', 'a key is made';

my ($line, $location, $route) = map { ours($_) } $page =~ /^```nginx\n(.*?)^```/msg;
$t->set(LINE => $line, LOCATION => $location, ROUTE => $route);
$t->gateway_conf(<<'SERVER', http => '%%LINE%%');
%%LOCATION%%
pass /reports to service: platform_gateway_access branch; %%ROUTE%%
pass /others to service: platform_gateway_access branch; platform_gateway_assertion audience=others;
pass /without to service: platform_gateway_access branch;
SERVER
my ($program) = $page =~ /^```js\n(.*?)^```/ms;
$t->write_file('service/service.mjs', ours($program));
symlink $t->root . '/t/node/node_modules', "$dir/service/node_modules" or die "node_modules: $!\n";
my $port = $t->start_gateway;
my $service;

sub start ($name) {
    $service->stop if $service;
    $service = $t->track(Platform::Test::Process->start(name => 'service', dir => $dir,
        log => "$dir/service.log", cmd => [ $node, "$dir/service/service.mjs" ],
        ok_status => ['any']));
    return ok eventually(sub { eval { http_get($t->port('service'), '/')->status } }), $name;
}
start('the service runs');

my @branch = (token => jwt_token(branch => $key));
sub said { my $res = http_get(@_); return [ $res->status, $res->body ] }
my $WELCOME = [ 200, "00000000-0000-4000-8000-000000000001 is manager and cashier\n" ];
sub refused ($code) { return [ 401, "not from the gateway: $code\n" ] }

is_deeply said($port, '/reports', @branch), $WELCOME, 'through the gateway';
is_deeply said($port, '/others', @branch), refused('ERR_JWT_CLAIM_VALIDATION_FAILED'),
    'an assertion for another service';
is_deeply said($port, '/without', @branch), refused('ERR_JWS_INVALID'), 'a location without';

# At the port of the service itself: [what, the error or none, headers].

my $keys = "$dir/etc/assertion-keys";
my ($pem) = map { $t->read_file($_) } glob "$keys/first.*";
my $signs = Platform::Test::Jwt::Key->new(Crypt::PK::ECC->new(\$pem), 'ES256', 'first');
my %good = (iss => 'platform-gateway', aud => 'reports', sub => uuid(1), account_id => uuid(1),
    roles => [ 'manager', 'cashier' ], iat => time, exp => time + 60);
sub assertion ($change = {}, $header = {}, $by = $signs) {
    my %claims = (%good, %$change);
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return jwt_sign(key => $by, header => { typ => 'platform-assertion+jwt', %$header },
        payload => \%claims);
}
my $FAILED = 'ERR_JWT_CLAIM_VALIDATION_FAILED';
for my $case (
    [ 'a good one (control)', undef, assertion() ],
    [ 'none', 'ERR_JWS_INVALID' ],
    [ 'two', 'ERR_JWS_INVALID', assertion(), assertion() ],
    [ 'by another key of that id', 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED',
        assertion({}, {}, jwt_key('assert-other', alg => 'ES256')->as('first')) ],
    [ 'by an unknown key', 'ERR_JWKS_NO_MATCHING_KEY', assertion({}, {}, $signs->as('other')) ],
    [ 'of another type', $FAILED, assertion({}, { typ => 'JWT' }) ],
    [ 'of another issuer', $FAILED, assertion({ iss => 'platform' }) ],
    [ 'for others', $FAILED, assertion({ aud => 'others' }) ],
    [ 'of nobody', $FAILED, assertion({ sub => undef }) ],
    [ 'without an end', $FAILED, assertion({ exp => undef }) ],
    [ 'that ended within the leeway', undef, assertion({ exp => time - 5 }) ],
    [ 'that ended', 'ERR_JWT_EXPIRED', assertion({ exp => time - 60 }) ],
    [ 'by a secret', 'ERR_JOSE_ALG_NOT_ALLOWED', jwt_sign(secret => 'x', header => { kid => 'first',
        typ => 'platform-assertion+jwt' }, payload => \%good) ],
    [ 'without a signature', 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED', assertion() =~ s/[^.]+\z//r ],
    [ 'an access token', $FAILED, jwt_token(branch => $signs) ],
) {
    my ($name, $error, @sent) = @$case;
    is_deeply said($t->port('service'), '/', headers => [ map { ('X-Platform-Assertion' => $_) } @sent ]),
        $error ? refused($error) : $WELCOME, "at its port: $name";
}

# The key is replaced, step by step; the service asks for keys again at most each 30
# seconds, so it is started anew as if the ten minutes had passed.

my @files;
for my $step (@replace) {
    my $second = time;
    eventually(sub { time > $second });
    my $commands = $step =~ s/^sudo nginx -t && sudo systemctl reload nginx\n//mr;
    isnt $commands, $step, 'a step ends with a reload';
    is shell($commands), '', 'its commands';
    ok $t->reload, 'and nginx takes it';

    # The service knows the keys of the step before, then those of this one.
    is_deeply said($port, '/reports', @branch), $WELCOME, 'a service that has the old key set';
    start('later');
    is_deeply said($port, '/reports', @branch), $WELCOME, 'one that has the new one';
    push @files, join ' ', map { s{.*/}{}r =~ s/\.\d+\.pem//r } sort glob "$keys/*";
}
is_deeply \@files, [ 'first.signing second.published', 'first.signing second.signing',
    'second.signing' ], 'the files after each step';

$t->done;

package Platform::Test::Stack;

# The whole platform as the templates of nginx.conf.d describe it: gateway and
# identity faces in one nginx, identity-fcgi, PostgreSQL, and downstream either
# the templates' own stub or an echo in Perl.

use v5.36;

use Platform::Test::Env qw(readers);
use Platform::Test::Http;

our $CREDENTIAL = 'Demo-passw0rd!';

# Made by Platform::Test->full_stack; upstream: the echo, where echo => 1 asked
# for one.
sub new ($class, %o) { return bless {%o}, $class }

readers(qw(nginx identity upstream));

sub gateway ($self) { return $self->{test}->port('gateway') }

sub face ($self) { return $self->{test}->port('identity') }

sub postgres ($self) { return $self->{test}->postgres }

sub get ($self, @r) { return http_get($self->gateway, @r) }

# post(PATH, DATA, ...): a JSON body, unless DATA is undef.
sub post ($self, $path, $data = undef, %o) {
    return http_post($self->gateway, $path,
        (defined $data ? (json => $data) : (body => '')), %o);
}

# Logs in through the gateway; account 'one' is one@demo.test.
sub login ($self, $account, %o) {
    return $self->post('/api/auth/login', {
        account    => $account =~ /@/ ? $account : "$account\@demo.test",
        credential => $o{credential} // $CREDENTIAL,
    });
}

sub refresh ($self, $token, %o) {
    return $self->post('/api/auth/refresh', { refreshToken => $token }, %o);
}

# Selects the branch of that number from the answer to a login.
sub select_branch ($self, $login, $n = 0) {
    return $self->post('/api/auth/select-branch', { branchId => $login->{branches}[$n]{branchId} },
        token => $login->{accountAccessToken});
}

# Calls the business service with a branch token.
sub current_context ($self, $token, %o) {
    return $self->get('/api/workspaces/current-context', token => $token, %o);
}

# The names and values of the context headers in what an upstream saw.
sub context ($request) {
    my $is = qr/^X-(?:Account-Id|Account-Type|Session-Id|Token-Type
        |Token-Scope|Workspace-Id|Tenant-Id|Member-Id|Active-Branch-Id
        |Branch-Ids|Roles)$/xi;
    return grep { $_->[0] =~ $is }
        map { [ $_->[0] =~ s/[^A-Za-z0-9]/-/gr, $_->[1] ] } @{ $request->{headers} };
}

# Further methods of Platform::Test.

package Platform::Test;

use v5.36;

sub fcgi ($self, $address) { return Platform::Test::Fcgi->new($address) }

# echo_fastcgi([NAME]) and so on: echoes that speak that.
for my $protocol (qw(fastcgi scgi uwsgi)) {
    no strict 'refs';
    *{"echo_$protocol"} = sub ($self, $name = $protocol) {
        return $self->http_server($name, undef,
            protocol => Platform::Test::Fcgi->can("echo_$protocol"));
    };
}

# The identity face on port "identity": what {identity_url} is, without
# limits, CORS or a gateway.
sub identity_face ($self, %env) {
    my $identity = $self->identity(%env);
    $self->start_face($identity->nginx_address, name => 'face');
    # It listens before it has migrated, and answers once it has.
    http_get($self->port('identity'), '/healthz');
    return $identity;
}

# What nginx tells identity, from that directory, where it waits longer for an
# answer than a busy machine takes for a login's hash.  Returns the file's path.
sub _patient ($self, $from) {
    my $text = slurp("$from/identity_fastcgi_params");
    $text =~ s/(fastcgi_read_timeout) 15s;/$1 60s;/ or die "no timeout in $from\n";
    return $self->write_file('rendered/identity_fastcgi_params', $text);
}

# Starts the nginx of that face alone, before what listens at an address; http
# => further lines of http{}, listen => of its listen.  Returns its port.
sub start_face ($self, $address, %o) {
    my ($http, $listen) = map { $_ // '' } @o{qw(http listen)};
    my $params = $self->_patient($self->root . '/nginx.conf.d');
    $self->nginx_conf(<<"CONF", $o{name});
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    platform_gateway on;
    platform_gateway_access public;
    $http
    server {
        listen 127.0.0.1:%%PORT_identity%% $listen;
        location / { include $params; fastcgi_pass $address; }
    }
}
CONF
    $self->start_nginx($o{name});
    return $self->port('identity');
}

# Starts everything.  echo => 1: downstream is the Perl echo; edit => sub
# changes $_, the text of the rendered nginx.conf; env => {...} the environment
# of both halves (rate limits are off unless it says so); identity => one process
# that runs, or [several]; key_age => the soft age and the cooldown of keys.
sub full_stack ($self, %o) {
    my $upstream = $o{echo} ? $self->echo_upstream : undef;
    my %env = (PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $self->port('identity'),
        map({ ("PLATFORM_${_}_RATE_LIMIT" => 'off') } qw(LOGIN REFRESH)),
        PLATFORM_AUTH_COOKIE_SECURE => 'false',
        $upstream ? (PLATFORM_ENTITLEMENT_URL => 'http://127.0.0.1:' . $upstream->port) : (),
        %{ $o{env} // {} });
    my $identities = $o{identity} // $self->identity(%env);
    $identities = [$identities] if ref $identities ne 'ARRAY';
    my $nginx = $self->render_nginx(\%env, join(' ', map { $_->address } @$identities),
        $o{edit});
    if ($o{key_age}) {
        my $file = 'rendered/platform-http.conf';
        my $text = $self->read_file($file);
        2 == $text =~ s/(key_soft_age|key_cooldown) \S+;/$1 $o{key_age};/g
            or die "no soft age and cooldown in $file\n";
        $self->write_file($file, $text);
    }
    $self->track($nginx)->start;

    for my $port ($self->port('identity'), $self->port('gateway')) {
        eventually(sub { eval { http_get($port, '/readyz')->status == 200 } })
            or die "/readyz of port $port is not UP\n";
    }

    return Platform::Test::Stack->new(test => $self, nginx => $nginx,
        identity => $identities->[0], upstream => $upstream, env => \%env);
}

# make run in a checkout, with ports of this test: its process.  args => further ones
# of make, cmd => another command; all else are settings.
sub make_run ($self, $checkout, %set) {
    my @args = @{ delete $set{args} // [] };
    my $cmd = delete $set{cmd}
        // [ 'make', '-s', 'BUILD=' . Platform::Test::Env::build(), 'run', @args ];
    my %env = (PATH => $ENV{PATH}, RUN_DIR => "$self->{dir}/run",
        METRICS_LISTEN => '127.0.0.1:' . $self->port('metrics'),
        map { (uc . '_PORT' => $self->port($_)) } qw(gateway identity stub playground));
    return $self->process('make-run-' . ++$self->{runs}, dir => $checkout, cmd => $cmd,
        env => { %env, %set }, ok_status => ['any'])->expect_end;
}

# One test: it is ready, soon.  What it said.
sub run_ready ($self, $run, $name) {
    my $said = sub { $self->read_file($run->name . '.log') // '' };
    eventually(sub { $said->() =~ /^Ready\.$/m || !$run->alive }, 300);
    Test::More::like($said->(), qr/^Ready\.$/m, "$name: ready");
    return $said->();
}

# Renders the templates as an operator would; the nginx is not started.
sub render_nginx ($self, $env, $upstream, $edit = undef) {
    my ($dir, $root) = ($self->{dir}, $self->root);
    my ($run, $logs, $out) = ("$dir/run", "$dir/logs", "$dir/rendered");
    mkdir $_ for $run, $logs;
    local %ENV = (PATH => $ENV{PATH},
        (map { (uc $_ . '_PORT' => $self->port($_)) } qw(gateway identity stub)),
        METRICS_LISTEN => '127.0.0.1:' . $self->port('metrics'),
        RUN_DIR => $run, LOG_DIR => $logs, GATEWAY_ACCESS_LOG => "$logs/access.log",
        PLATFORM_HTTP_ACCESS_LOG_BUFFER => 'off',
        MODULE_PATH => Platform::Test::Env::module(), IDENTITY_UPSTREAM => $upstream,
        NGINX_USER => $> == 0 ? 'root' : '', %$env);
    system("$root/tools/render", '--out', $out) == 0 or die "tools/render failed\n";
    $self->_patient($out);
    local $_ = $self->read_file('rendered/nginx.conf');
    $edit->() if $edit;
    $self->write_file('rendered/nginx.conf', $_) if $edit;
    my ($pidfile) = /^\s*pid\s+([^;]+);/m;
    return Platform::Test::Nginx->new(dir => $dir, name => 'platform', prefix => $run,
        conf => "$out/nginx.conf", log => "$logs/error.log", access => "$logs/access.log",
        pidfile => $pidfile // die("no pid in the rendered nginx.conf\n"),
        args => [ '-g', 'daemon off;' ]);
}

1;

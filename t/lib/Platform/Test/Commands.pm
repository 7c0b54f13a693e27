package Platform::Test::Commands;

# Runs the operator's commands and checks what all have in common: exit status, one
# line per error, valid JSON, audit lines, no secret.

use v5.36;

use JSON::PP;
use Test::More ();

my $json = JSON::PP->new->utf8;

# test: a Platform::Test; env => {...} for every run; secrets => [...] that
# must never be printed.
sub new ($class, %o) {
    return bless { env => {}, secrets => [], audit => [], %o }, $class;
}

# One more secret that must never be printed.
sub secret ($self, $secret) { push @{ $self->{secrets} }, $secret; return $secret }

# (status, stdout, stderr) of one run; leading options in a hash: env,
# stdin, within.
sub run ($self, @args) {
    my %o = ref $args[0] ? %{ shift @args } : ();
    my ($status, $out, $err) = $self->{test}->run_identity(\@args,
        %{ $self->{env} }, %{ $o{env} // {} },
        map { exists $o{$_} ? ($_ => $o{$_}) : () } qw(stdin within));
    for my $secret (@{ $self->{secrets} }) {
        Test::More::fail("@args: prints a secret") if index("$out$err", $secret) >= 0;
    }
    return ($status, $out, $err);
}

# One that runs meanwhile: its process; a leading hash may have env, and redirect for
# the shell.
sub start ($self, @args) {
    my %o = ref $args[0] ? %{ shift @args } : ();
    my $t = $self->{test};
    return $t->track($t->identity_process('op' . ++$t->{runs},
        { %{ $self->{env} }, %{ $o{env} // {} } }, args => \@args,
        via => [ 'sh', '-c', 'exec "$@"' . ($o{redirect} // ''), 'sh' ])->expect_end);
}

# The commands that print rows, which are JSON lines.
my $list = qr/\A(?:\w+\ list|account\ sessions|keys\ rotate
    |member\ (?:grant|revoke))\z/x;

# Succeeds; returns the decoded result, of a list all its rows.  Its log is kept
# for events().
sub done ($self, @args) {
    my $o = ref $args[0] ? shift @args : {};
    my ($status, $out, $err) = $self->run($o, @args, '--json');
    my $name = join ' ', grep {defined} @args[0, 1];
    Test::More::is($status, 0, "$name: exit 0") or Test::More::diag($err);
    my @lines = map { eval { $json->decode($_) } } split /\n/, $err;
    Test::More::is(scalar @lines, scalar(() = $err =~ /\n/g),
        "$name: stderr has JSON lines alone") or Test::More::diag($err);
    $self->{audit} = \@lines;
    my $rows = $name =~ $list && !grep { $_ eq '--all' && $name !~ /sess/ } @args;
    my $result = eval { $rows ? [ map { $json->decode($_) } split /^/, $out ]
        : $json->decode($out) };
    Test::More::ok(ref $result, "$name: the result is JSON") or Test::More::diag($out);
    return $result;
}

# The events that the last done() logged.
sub events ($self) { return [ map { $_->{event} } @{ $self->{audit} } ] }

# The same, and it logs these events (an array) and no other; returns the result.
sub audited ($self, $events, @args) {
    my $result = $self->done(@args);
    Test::More::is_deeply($self->events, $events, 'audited: ' . (join ' ', @$events or 'nothing'));
    return $result;
}

# Fails with one line on stderr that matches, and nothing on stdout; with --json the line
# is a problem of the same detail, which is returned.
sub refused ($self, $want, $line, @args) {
    my $o = ref $args[0] ? shift @args : {};
    my ($status, $out, $err) = $self->run($o, @args);
    my $name = join ' ', map { length > 30 ? substr($_, 0, 30) . '...' : $_ } @args;
    Test::More::is($status, $want, "$name: exit $want");
    Test::More::like($err, qr/\Aidentity-fcgi: [^\n]+\n\z/, "$name: one line");
    Test::More::like($err, $line, "$name: says why");
    Test::More::is($out, '', "$name: no result");
    my ($why) = $err =~ /\Aidentity-fcgi: (.*)/;
    ($status, $out, $err) = $self->run($o, @args, '--json');
    my $problem = $err =~ /\A[^\n]+\n\z/ && eval { $json->decode($err) } || {};
    Test::More::is_deeply([ $status, $out, $problem->{detail} ], [ $want, '', ucfirst "$why." ],
        "$name --json: the same") or Test::More::diag($err);
    Test::More::like($problem->{code}, qr/\A[A-Z]+(?:_[A-Z]+)+\z/, "$name --json: a code");
    return $problem;
}

1;

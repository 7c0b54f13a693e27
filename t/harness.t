# The harness itself: what goes wrong fails a test.

use Platform::Test;

my $t = Platform::Test->new(module => 0);

# What must fail a test.  Each runs as a test file of its own.

my $alert = q{$t->write_file('x.log', "[alert] boo\n");};
for my $case (
    [ 'a good test', 0, qr/^ok 1/, '$t->done;' ],
    [ 'an [alert] in a log', 1, qr/x\.log: \[alert\] boo/, "$alert \$t->done;" ],
    [ 'an allowed one', 0, qr/^ok 1/, "$alert \$t->allow(qr/boo/); \$t->done;" ],
    [ 'sanitizer text, also without done', 1, qr/AddressSanitizer/,
        q{$t->write_file('x.log', "==1==ERROR: AddressSanitizer: heap\n"); done_testing;} ],
    [ 'a daemon that died', 1, qr/short had ended by itself/,
        q{my $p = $t->process(short => cmd => ['true']); $p->wait_end(60); $t->done;} ],
    [ 'a leftover process', 1, qr/left running: \d+ sleep/,
        q{my $d = $t->dir; system("cd $d && setsid sleep 100 >/dev/null 2>&1 &");
        eventually(sub { grep { Platform::Test::Process::command_of($_) =~ /^sleep/ }
            Platform::Test::Process::in_dir($d) }); $t->done;} ],
    [ 'a test that is killed', 1, qr/^ok 1/,
        q{$t->echo_upstream; my $pg = $t->postgres; $| = 1;
        print "left running: ", $pg->pid, " ", $t->dir, "\n"; kill 'KILL', $$;} ])
{
    my ($name, $fails, $says, $body) = @$case;
    my $file = $t->write_file('sub.t', <<"SUB");
use Platform::Test;
my \$t = Platform::Test->new(module => 0);
ok 1, 'something';
$body
SUB
    my $said = `$^X $file 2>&1`;
    is $? == 0, !$fails, $name . ($fails ? ' fails' : ' passes') or diag $said;
    like $said, $says, '  and it is told';
    if (my ($left, $dir) = $said =~ /left running: (\d+) (.*)/) {
        ok eventually(sub { !kill 0, $left }), '  and nothing runs on';
        system 'rm', '-rf', $dir if $dir =~ m{^/};
    }
    system 'rm', '-rf', Platform::Test::Env::build() . '/test-failed/sub.t';
}

# t/deb/apart: whatever ends it, no process and no mount is left, and what a mount
# leads to is never removed with a tree.

SKIP: {
    my $apart = $t->root . '/t/deb/apart';
    skip 'no namespaces without root', 1 if $> != 0 || system("$apart true 2>/dev/null") != 0;
    my ($tree, $outside) = map { $t->dir . $_ } '/a tree', '/outside';
    my $bind = 'mount --bind . "$1/in" && : >"$1/mounted"';
    my $removed = sub ($how, @remove) {
        is system(@remove), 0, "$how: the tree is removed";
        ok !-e $tree && -e "$outside/kept", '  and nothing else';
    };
    my $start = sub {
        $t->write_file($_, '') for 'outside/kept', 'a tree/in/file';
        unlink "$tree/mounted";
        return $t->process(apart => dir => $outside, cmd => [ $apart,
            'sh', '-c', $_[0], $apart, $tree ])->expect_end;
    };
    for my $signal (qw(TERM INT HUP KILL)) {
        my $run = $start->("$bind; sleep 100 & wait");
        ok eventually(sub { -e "$tree/mounted" }), "SIG$signal: mounted";
        ok -e "$tree/in/file", '  which nobody else sees';
        $run->signal($signal);
        $run->wait_end(60);
        is Platform::Test::Process::describe($run->status), 'signal '
            . { HUP => 1, INT => 2, KILL => 9, TERM => 15 }->{$signal}, '  by it';
        ok eventually(sub { !Platform::Test::Process::in_dir($outside) }),
            '  and so does what it ran';
        $removed->("  SIG$signal", $apart, '--remove', $tree);
    }
    my $run = $start->("$bind; cd \"\$1/in\"; \"\$0\" --remove \"\$1\"");
    ok $run->wait_end(60), 'a mount in use';
    isnt $run->status, 0, '  is refused';
    ok -e "$tree/mounted" && -e "$outside/kept", '  and nothing is removed';
    $start->('')->wait_end(60);
    $removed->('a mount that was left', $apart, 'sh', '-c',
        "cd \"\$2\"; $bind; cd /; \"\$0\" --remove \"\$1\"", $apart, $tree, $outside);
}

$t->done;

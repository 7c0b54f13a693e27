# docs/compatibility.md: t/names has each name that the promise is about.  A name that
# disappears breaks the promise; a new one is a line more in t/names.

use Platform::Test;

my $t = Platform::Test->new(module => 0);
my $root = $t->root;
my $module = 'ngx_platform_gateway_module';

sub slurp ($name) { return $t->read_file("$root/$name") }
sub words ($kind, @words) { return map {"$kind $_"} @words }

# The operations of openapi.yaml, the members of its schemas, and its codes.
sub api ($text) {
    my (@found, $path, $schema, %indent);
    my ($paths, $schemas) = $text =~ /^paths:\n(.*?)^components:.*^  schemas:\n(.*)/ms;
    for (split /\n/, $paths) {
        $path = $1 if m{^  (/\S*):$};
        push @found, "operation \U$1\E $path" if /^    (get|put|post|patch|delete|options):$/;
    }
    for (split /\n/, $schemas) {
        $schema = $1, %indent = () if /^    (\w+):/;
        my ($space) = /^( *)/;
        delete @indent{ grep { $_ > length $space } keys %indent };
        push @found, "member $schema.$1" if /^ *["']?([\w\$-]+)["']?:/ && $indent{ length $space };
        $indent{ 2 + length $space } = 1 if /^ *properties:$/;
        push @found, map {"member $schema.$_"} $1 =~ /(\w+):/g if /properties: \{ (.*)/;
    }
    return @found, words(code => $text =~ /\b((?:AUTH|GATEWAY|SYSTEM)_[A-Z_]+)\b/g);
}

# The names of these sources.
sub names {
    my $identity = Platform::Test::Env::identity();
    my ($reasons) = slurp('docs/troubleshooting.md') =~ /^## Reasons\n(.*?)^## /ms;
    my ($variables) = slurp('docs/directives.md') =~ /^## Variables\n(.*?)^### /ms;
    my $pages = join '', map { slurp("docs/$_") } qw(metrics.md operations.md);
    my %seen = map { $_ => 1 } (
        words(directive => slurp("$module/ngx_http_platform_gateway_module.c")
            =~ /\{ ngx_string\("(platform_\w+)"\)/g),
        words('directive issuer' => slurp("$module/conf/ngx_http_pgw_trust.c")
            =~ /^    \{ ngx_string\("(\w+)"\)/mg),
        words(variable => $variables =~ /(\$platform_\w+)/g),
        words(setting => qx{$root/tools/render --settings} =~ /^(\w+)/mg,
            qx{$identity --print-config} =~ /^(\w+)=/mg),
        words(command => qx{$identity help} =~ /^  ([a-z-]+(?: [a-z-]+)?)(?= )/mg),
        words(metric => $pages =~ /`(platform_gateway_\w+)`/g,
            map { $t->read_file($_) =~ /"(identity_[a-z_]+)"/g }
            glob "$root/identity-fcgi/src/{base,server,db,auth}/*.c"),
        words(reason => $reasons =~ /^\| `(\w+)` \|/mg),
        words('log member' => slurp("$module/answer/ngx_http_pgw_log.c") =~ /\\"(\w+)\\":/g),
        words(header => map { slurp("$module/$_") =~ /"(X-[A-Za-z-]+)"/g }
            qw(conf/ngx_http_pgw_conf.c token/ngx_http_pgw_assertion.c)),
        api(slurp('docs/openapi.yaml')),
    );
    return sort keys %seen;
}

my @have = names();
my @kept = split /\n/, slurp('t/names');
my (%have, %kept);
@have{@have} = @kept{@kept} = ();
for my $kind (qw(directive variable setting command metric reason header operation member
    code), 'log member') {
    cmp_ok scalar(grep {/\A$kind /} @have), '>', 9, "names: $kind";
}
is_deeply [ grep { !exists $have{$_} } @kept ], [],
    'no name of docs/compatibility.md has disappeared';
is_deeply [ grep { !exists $kept{$_} } @have ], [], 'each new name is in t/names';
is_deeply \@kept, [ sort @kept ], 'where they are sorted';

$t->done;

# What is wrong with the directives of the key set shows at nginx -t, with the
# remedy; beside each stands the same configuration put right.

use Platform::Test;

my $t = Platform::Test->new;
my $port = $t->port('issuer');

my $LOCATION = 'location = /_keys { internal; platform_gateway off;
    subrequest_output_buffer_size 64k; proxy_pass http://127.0.0.1:1; }';

# Another server, where the keys are needed.
my $OTHER = <<'CONF';
server {
    listen 127.0.0.1:%%PORT_other%%;
    location / {
        platform_gateway on;
        platform_gateway_access branch;
        platform_gateway_issuer http://issuer.test;
        empty_gif;
    }
}
CONF

sub conf (%o) {
    my $http = $o{http} // '';
    my $server = $o{server} // 'platform_gateway_key_location /_keys;';
    my $location = $o{location} // $LOCATION;
    return (server => "$server\n$location", http => "$http\n$OTHER");
}

sub good ($name, %o) {
    my ($ok, $said) = $t->location_test(conf(%o));
    ok $ok, "good: $name" or diag $said;
}

sub bad ($name, $pattern, %o) {
    my ($ok, $said) = $t->location_test(conf(%o));
    ok !$ok, "bad: $name";
    like $said, $pattern, "$name: says what to do";
}

good('the usual');

bad('no key location', qr/add "platform_gateway_key_location" to a server/,
    server => '', location => '');
bad('two key locations',
    qr/already given by "platform_gateway_key_location" in \S+:\d+/,
    server => 'platform_gateway_key_location /_keys;' x 2);
bad('a relative one', qr/must begin with "\/"/,
    server => 'platform_gateway_key_location _keys;');
bad('one that does not exist', qr/names no location .* in \S+:\d+/,
    location => '', server => 'platform_gateway_key_location /_keys;'
        . 'location = /other { internal; empty_gif; }');
bad('one that another location would serve',
    qr/location "\/" .* or a "location = \/_keys"/,
    location => 'location / { empty_gif; }');
bad('one that clients reach', qr/must be internal: add "internal;"/,
    location => $LOCATION =~ s/internal;//r);
bad('a small output buffer', qr/add "subrequest_output_buffer_size 64k;"/,
    location => $LOCATION =~ s/_size 64k/_size 60k/r);
good('a larger one', location => $LOCATION =~ s/_size 64k/_size 256k/r);
bad('the default one', qr/add "subrequest_output_buffer_size 64k;"/,
    location => $LOCATION =~ s/subrequest_output_buffer_size 64k;//r);
good('one set for the server',
    location => 'subrequest_output_buffer_size 64k; '
        . $LOCATION =~ s/subrequest_output_buffer_size 64k;//r);
good('a prefix location', location => $LOCATION =~ s/= \/_keys/\/_k/r);
good('a nested one', location => 'location /_ { platform_gateway off; '
        . 'location /_other { empty_gif; } ' . "$LOCATION }");

# A cache would answer with old keys.

my $paths = join ' ', map { "${_}_cache_path " . $t->dir
    . "/$_ keys_zone=$_:1m;" } qw(proxy fastcgi);
sub cached ($directive) {
    return (http => $paths,
        server => "platform_gateway_key_location /_keys; $directive");
}

bad('a cache that is inherited',
    qr/location "\/_keys" .* cache: add "proxy_cache off;" to it, in \S+:\d+/,
    cached('proxy_cache proxy;'));
bad('a cache of an address made of variables', qr/add "proxy_cache off;"/,
    cached('set $at 127.0.0.1:1; proxy_cache proxy;'),
    location => $LOCATION =~ s{127.0.0.1:1;}{\$at;}r);
good('none there', cached('proxy_cache proxy;'),
    location => $LOCATION =~ s/\}/proxy_cache off; }/r);
good('a cache of others', cached('fastcgi_cache fastcgi;'));
good('a cache around a file', cached('proxy_cache proxy;'),
    location => 'location = /_keys { internal; platform_gateway off; '
        . 'subrequest_output_buffer_size 64k; root html; }');

good('among many others',
    location => join ' ', $LOCATION, map {"location = $_ { empty_gif; }"}
        map { ("/$_", "/_keys$_", "/_$_") } 'a' .. 'm');

bad('a zone without a size', qr/it is NAME:SIZE/,
    http => 'platform_gateway_zone keys;');
bad('a zone without a name', qr/it is NAME:SIZE/,
    http => 'platform_gateway_zone :1m;');
bad('a zone of nonsense', qr/zone size "x" is invalid/,
    http => 'platform_gateway_zone keys:x;');
bad('a small zone', qr/below 256k/,
    http => 'platform_gateway_zone keys:128k;');
good('the smallest zone', http => 'platform_gateway_zone keys:256k;');
bad('two zones', qr/is duplicate/,
    http => 'platform_gateway_zone a:1m; platform_gateway_zone b:1m;');

bad('no cooldown', qr/must be at least 1s in \S+check\.conf:\d+/,
    http => 'platform_gateway_key_cooldown 0;');
bad('a soft age below the cooldown',
    qr/soft_age" \(5s\) must not be below .* \(6s\) in \S+check\.conf:\d+/,
    http => 'platform_gateway_key_soft_age 5s;'
        . 'platform_gateway_key_cooldown 6s;');
bad('no soft age',
    qr/soft_age" \(0s\) must not be below .* \(1s\) in \S+check\.conf:\d+/,
    http => 'platform_gateway_key_soft_age 0;');
good('a short soft age alone', http => 'platform_gateway_key_soft_age 5s;');
bad('a cooldown above the default soft age',
    qr/soft_age" \(300s\) must not be below .* in \S+check\.conf:\d+/,
    http => 'platform_gateway_key_cooldown 301s;');
bad('a hard age below the soft age',
    qr/hard_age" \(60s\) must not be below .* in \S+check\.conf:\d+/,
    http => 'platform_gateway_key_hard_age 1m;');
good('a hard age equal to it', http => 'platform_gateway_key_hard_age 5m;');

# A file instead.

my $file = $t->write_file('keys.json', jwks(jwt_key('a')));
my @none = (server => '', location => '');
good('a key file', http => "platform_gateway_key_file $file;", @none);
bad('one that is not there',
    qr/no\.json" gives no keys: No such file.*set there.* in \S+:\d+/,
    http => 'platform_gateway_key_file no.json;', @none);
bad('a directory', qr/gives no keys: it is not a regular file/,
    http => 'platform_gateway_key_file ' . $t->dir . ';', @none);
my $private = $t->write_file('bad.json', '{"keys":[{"kty":"EC"}]}');
bad('one without a usable key', qr/gives no keys: .*usable key/,
    http => "platform_gateway_key_file $private;", @none);
bad('a file and a location',
    qr/already given by "platform_gateway_key_file" in \S+:\d+: leave one/,
    http => "platform_gateway_key_file $file;");
bad('two files', qr/already given by "platform_gateway_key_file"/,
    http => "platform_gateway_key_file $file;" x 2, @none);
bad('no name', qr/needs the name of a file/,
    http => 'platform_gateway_key_file "";', @none);

my $cache = 'platform_gateway_key_cache_file ' . $t->dir . '/kept;';
good('a cache file', http => $cache);
bad('two', qr/is duplicate/, http => $cache x 2);
bad('a directory for it', qr/needs the name of a file/,
    http => 'platform_gateway_key_cache_file /tmp/;');
bad('one beside a key file', qr/no use beside .* in \S+:\d+/,
    http => "$cache platform_gateway_key_file $file;", @none);

$t->allow(qr/\[emerg\]/);
$t->done;

# Beside each slot of a subscription a slot that nobody reads. Loaded with -M by the scripts of src/test/subscription, which run as they are.
#
# In: whatever a script has its nodes do by psql. Out: for each new subscription, and where it changes its publications, a slot of the plugin pgoutput at
# the publisher, and a line of $SHADOW_SLOTS: the publisher's folder, database, the shadow, the slot, the LSN, whether in two phases, the publications; or
# what went wrong.
# Scripts that count slots don't see the shadows.

package ShadowSlots;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my $SEEN   = "SELECT s.oid, quote_nullable(coalesce(subslotname, '')), subconninfo, to_jsonb(s) ->> 'subtwophasestate', array_to_string(subpublications, ',')
  FROM pg_subscription s JOIN pg_database d ON d.oid = subdbid WHERE datname = current_database() AND subslotname IS NOT NULL";
my $HIDDEN = "(SELECT * FROM pg_catalog.pg_replication_slots WHERE slot_name !~ '^shadow_') pg_replication_slots";
my $SECONDS = 20;
my %known;
my $made = 0;

my %original = map { $_ => PostgreSQL::Test::Cluster->can($_) } qw(init psql poll_query_until);

sub hidden
{
	my ($sql) = @_;
	$sql =~ s/\bFROM\s+(?:pg_catalog\.)?pg_replication_slots\b/FROM $HIDDEN/gi if defined $sql;
	return $sql;
}

sub told
{
	open my $to, '>>', $ENV{SHADOW_SLOTS} or die "cannot write $ENV{SHADOW_SLOTS}: $!";
	print $to join("\t", @_), "\n";
	close $to;
	return;
}

# What psql prints, one line a row; undef if it failed.
sub asked
{
	my ($connection, $sql) = @_;
	my ($out, $error) = ('', '');
	my $well = IPC::Run::run [ 'psql', '-XAtq', '-F', "\t", '-v', 'ON_ERROR_STOP=1', '-d', $connection, '-c', $sql ],
	  '>', \$out, '2>', \$error;
	chomp($out, $error);
	return ($well ? $out : undef, $error);
}

# Shadows for the subscriptions of this database that have none.
sub follow
{
	my ($node, $dbname) = @_;
	my ($rows) = asked($node->connstr($dbname), $SEEN);
	for my $row (split /\n/, $rows // '')
	{
		my ($oid, $slot, $publisher, $state, $publications) = split /\t/, $row;
		next if $known{ $node->name . " $oid $slot $publications" }++;
		my $as = "$publisher user=" . getpwuid($>) . " options='-c statement_timeout=${SECONDS}s'";
		# A subscription asks for two phases only once its tables are copied.
		for my $two_phase (($state // 'd') eq 'd' ? ('false') : ('false', 'true'))
		{
			my $shadow = 'shadow_' . ++$made;
			my ($said, $error) = asked($as, "SELECT current_setting('data_directory'), current_database(), slot_name, $slot, lsn, $two_phase
			  FROM pg_create_logical_replication_slot('$shadow', 'pgoutput', false, $two_phase)");
			$error =~ s/\s+/ /g;
			told(defined $said ? ($said, $publications) : ('', '', $shadow, $slot, '', '', $error));
		}
	}
	return;
}

no warnings 'redefine';

*PostgreSQL::Test::Cluster::init = sub {
	my ($self, @rest) = @_;
	$original{init}->($self, @rest);
	$self->append_conf('postgresql.conf', "max_replication_slots = 40\nmax_connections = 30\nautovacuum = off");
	return;
};

*PostgreSQL::Test::Cluster::psql = sub {
	my ($self, $dbname, $sql, @rest) = @_;
	my $wanted = wantarray;
	my @found = $wanted ? $original{psql}->($self, $dbname, hidden($sql), @rest) : scalar $original{psql}->($self, $dbname, hidden($sql), @rest);
	follow($self, $dbname) if defined $sql && $sql =~ /\b(?:CREATE|ALTER)\s+SUBSCRIPTION\b/i;
	return $wanted ? @found : $found[0];
};

*PostgreSQL::Test::Cluster::poll_query_until = sub {
	my ($self, $dbname, $sql, @rest) = @_;
	return $original{poll_query_until}->($self, $dbname, hidden($sql), @rest);
};

1;

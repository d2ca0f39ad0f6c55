-- Messages in subtransactions, and rows of others directly behind them: their positions are equal, and the server's merge decides.
-- story of one cluster

create table a (id int primary key, v text);
create table b (id int);

BEGIN;
SAVEPOINT s1;
UPDATE a SET v='x' WHERE id=5;
select pg_logical_emit_message(true,'p','m1');
RELEASE s1;
INSERT INTO a select g,'x' from generate_series(1,3) g;
SAVEPOINT s2;
INSERT INTO b VALUES (1);
ROLLBACK TO s2;
insert into b values (2);
COMMIT;

BEGIN;
insert into b values (10);
SAVEPOINT s1;
select pg_logical_emit_message(true,'p','m2');
RELEASE s1;
insert into b values (11);
COMMIT;

BEGIN;
insert into b values (20);
SAVEPOINT s1;
insert into b values (21);
select pg_logical_emit_message(true,'p','m3');
RELEASE s1;
insert into b values (22);
COMMIT;

BEGIN;
insert into b values (30);
SAVEPOINT s1;
insert into b values (31);
RELEASE s1;
SAVEPOINT s2;
select pg_logical_emit_message(true,'p','m4');
RELEASE s2;
insert into b values (32);
COMMIT;

BEGIN;
insert into b values (40);
SAVEPOINT s1;
insert into b values (41);
SAVEPOINT s2;
select pg_logical_emit_message(true,'p','m5');
RELEASE s2;
insert into b values (42);
SAVEPOINT s3;
select pg_logical_emit_message(true,'p','m6');
RELEASE s3;
insert into b values (43);
RELEASE s1;
select pg_logical_emit_message(true,'p','m7');
SAVEPOINT s4;
insert into b values (44);
COMMIT;

BEGIN;
SAVEPOINT s1;
select pg_logical_emit_message(true,'p','m8');
RELEASE s1;
TRUNCATE b;
SAVEPOINT s4;
insert into b values (54);
select pg_logical_emit_message(true,'p','m9');
SAVEPOINT s5;
insert into b values (54);
COMMIT;

-- What prints nothing is in the queues as well: chunks of TOAST, command ids and invalidations of DDL, rows of catalogs.
create table long (id int primary key, v text);
alter table long alter v set storage external;

BEGIN;
insert into b values (100);
SAVEPOINT s1;
insert into long values (1, repeat('toast', 2000));
SAVEPOINT s2;
select pg_logical_emit_message(true,'p','m10');
RELEASE s2;
insert into long values (2, repeat('toast', 2000));
SAVEPOINT s3;
insert into b values (101);
ROLLBACK TO s3;
SAVEPOINT s4;
select pg_logical_emit_message(true,'p','m11');
RELEASE s4;
insert into b values (102);
RELEASE s1;
insert into b values (103);
COMMIT;

BEGIN;
SAVEPOINT s1;
create table c (id int);
RELEASE s1;
SAVEPOINT s2;
insert into b values (110);
SAVEPOINT s3;
alter table c add v text;
RELEASE s3;
SAVEPOINT s4;
select pg_logical_emit_message(true,'p','m12');
RELEASE s4;
insert into b values (111);
SAVEPOINT s5;
comment on table c is 'a row of a catalog';
comment on table c is 'an update of one';
select pg_logical_emit_message(true,'p','m13');
RELEASE s5;
insert into b values (112);
RELEASE s2;
SAVEPOINT s6;
select pg_logical_emit_message(true,'p','m14');
RELEASE s6;
insert into c values (113, 'x');
SAVEPOINT s7;
select pg_logical_emit_message(true,'p','m15');
RELEASE s7;
drop table c;
COMMIT;

-- A transaction that commits a change of catalogs puts a snapshot into the queues of all that are open.
-- session main
BEGIN;
SAVEPOINT s1;
insert into b values (120);
RELEASE s1;
SAVEPOINT s2;
insert into b values (121);
RELEASE s2;
-- session two
create table d (id int);
-- session main
SAVEPOINT s3;
select pg_logical_emit_message(true,'p','m16');
RELEASE s3;
SAVEPOINT s4;
insert into b values (122);
RELEASE s4;
SAVEPOINT s5;
select pg_logical_emit_message(true,'p','m17');
RELEASE s5;
insert into b values (123);
COMMIT;

-- A message that ties with the first of many chunks, in a transaction with a snapshot from another's commit.
BEGIN;
insert into b values (130);
select pg_logical_emit_message(true,'p','m18');
-- session two
create table e (id int);
-- session main
SAVEPOINT s1;
truncate b;
insert into b values (131), (132);
create table f (id int);
SAVEPOINT s2;
select pg_logical_emit_message(true,'p','m19');
RELEASE s2;
insert into b values (133);
select pg_logical_emit_message(true,'p','m20');
RELEASE s1;
SAVEPOINT s3;
insert into long values (3, repeat('toast', 1000));
insert into b values (134);
comment on table long is 'long';
select pg_logical_emit_message(true,'p','m21');
SAVEPOINT s4;
SAVEPOINT s5;
insert into b values (135), (136);
RELEASE s4;
SAVEPOINT s6;
select pg_logical_emit_message(true,'p','m22');
-- session two
create role tied;
-- session main
insert into b values (137);
-- session two
create table g (id int);
-- session main
COMMIT;
-- session two
drop role tied;

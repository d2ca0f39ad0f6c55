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

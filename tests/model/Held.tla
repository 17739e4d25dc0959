-------------------------------- MODULE Held --------------------------------
(* First versions in a log as differences to the page of the commit that their generation begins after: what that commit *)
(* needs is held until a later generation has begun. docs/internals/log.md argues the design, "First versions". *)
(* *)
(* The database is one page. A commit has a block for it, the numbers that bind a log, and two lists of blocks that are *)
(* held: `since`, freed by maintenance since `next` changed, and `before`. A slot has a copy of the newest commit. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS Blocks, DrawnMax, VersionMax, Crashes, Without
Keeps(rule) == rule \notin Without

VARIABLES file, block, slot, drawn, version, crashes
vars == <<file, block, slot, drawn, version, crashes>>
(* Each has what processes see, `now`, and all that a power loss may leave, `may`. *)

Torn == -1
Put(x, value) == [now |-> value, may |-> x.may \cup {value}]
Fixed(x) == [x EXCEPT !.may = {x.now}]

Follows(s, f) == s.own # 0 /\ (s.own = f.current \/ s.after = f.next)

(* "bytes freed by a commit wait until it is durable", and what is held is not free. *)
Free(f) == Blocks \ ({c.block : c \in file.may} \cup f.since \cup f.before)
Held(b) == IF Keeps("what a generation began after is held") THEN {b} ELSE {}

Take(f, content) ==
    \E b \in Free(f) :
        /\ block' = [block EXCEPT ![b] = [now |-> content, may |-> @.may \cup {content, Torn}]]
        /\ file' = Put(file, [f EXCEPT !.block = b, !.content = content])

Checkpoint ==
    /\ Follows(slot.now, file.now) /\ drawn < DrawnMax /\ drawn' = drawn + 1
    /\ version < VersionMax /\ version' = version + 1
    /\ LET f == file.now
           isFirst == f.current # slot.now.own
           before == IF ~isFirst THEN f.before \cup f.since
                     ELSE IF Keeps("what was freed since is held on") THEN f.since ELSE {}
       IN  /\ Take([f EXCEPT !.current = slot.now.own, !.next = drawn', !.since = {}, !.before = before \cup Held(f.block)],
                   version')
           /\ slot' = IF isFirst /\ Keeps("the first checkpoint of another generation syncs the log first") THEN Fixed(slot) ELSE slot
    /\ UNCHANGED crashes

(* Maintenance moves the page, or drops its content if SQLite has it on the list of free pages. *)
Maintain ==
    /\ file.now.block # 0
    /\ LET f == [file.now EXCEPT !.since = @ \cup Held(file.now.block)]
       IN  \/ Take(f, f.content)
           \/ file' = Put(file, [f EXCEPT !.block = 0, !.content = 0]) /\ UNCHANGED block
    /\ UNCHANGED <<slot, drawn, version, crashes>>

FlushFile ==
    /\ file' = Fixed(file) /\ block' = [b \in Blocks |-> Fixed(block[b])]
    /\ UNCHANGED <<slot, drawn, version, crashes>>

(* All of the log before is in the file, by a checkpoint that was flushed. Commits of maintenance may have come since. *)
Begin ==
    /\ drawn < DrawnMax /\ drawn' = drawn + 1
    /\ \A c \in file.may : c.next = file.now.next
    /\ file.now.block # 0
    /\ slot' = Put(slot, [own |-> drawn', after |-> file.now.next, block |-> file.now.block, content |-> file.now.content])
    /\ IF Keeps("the commit whose record a slot has is durable before")
       THEN file' = Fixed(file) /\ block' = [b \in Blocks |-> Fixed(block[b])] ELSE UNCHANGED <<file, block>>
    /\ UNCHANGED <<version, crashes>>

SyncLog == slot.may # {slot.now} /\ slot' = Fixed(slot) /\ UNCHANGED <<file, block, drawn, version, crashes>>

PowerLoss ==
    /\ crashes < Crashes /\ crashes' = crashes + 1
    /\ \E f \in file.may, s \in slot.may :
        \E content \in [Blocks -> 0..VersionMax \cup {Torn}] :
            /\ \A b \in Blocks : content[b] \in block[b].may
            /\ f.block # 0 => content[f.block] = f.content
            /\ file' = [now |-> f, may |-> {f}] /\ slot' = [now |-> s, may |-> {s}]
            /\ block' = [b \in Blocks |-> [now |-> content[b], may |-> {content[b]}]]
    /\ UNCHANGED <<drawn, version>>

Next == Checkpoint \/ Maintain \/ FlushFile \/ Begin \/ SyncLog \/ PowerLoss

Init ==
    LET first == [block |-> 1, content |-> 1, current |-> 0, next |-> 0, since |-> {}, before |-> {}]
        none == [own |-> 0, after |-> 0, block |-> 1, content |-> 1]
        content(b) == IF b = 1 THEN 1 ELSE Torn
    IN  /\ file = [now |-> first, may |-> {first}] /\ slot = [now |-> none, may |-> {none}]
        /\ block = [b \in Blocks |-> [now |-> content(b), may |-> {content(b)}]]
        /\ drawn = 0 /\ version = 1 /\ crashes = 0
Spec == Init /\ [][Next]_vars

(* Whatever a power loss leaves: what a log that follows the file stands on is there. *)
TheBaseIsThere ==
    \A f \in file.may, s \in slot.may :
        \* A commit of which a part is missing is not the current one.
        (Follows(s, f) /\ (f.block = 0 \/ f.content \in block[f.block].may)) => block[s.block].may = {s.content}

(* Who writes takes the page as the base that readers will take. *)
TheBaseIsTheSame ==
    LET f == file.now
        s == slot.now
    IN  (Follows(s, f) /\ s.own # f.current) => (Keeps("a base is read through the record in the slot") \/ f.content = s.content)
=============================================================================

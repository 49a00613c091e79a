// The script by which a gdb is in front of the debugger.
#pragma once

namespace cairn::mpi::debug::gdb_front {

// Asks by lines of JSON, as front.cpp answers them. The descriptor of the socket is put in for %SOCKET%.
inline constexpr const char* front_script = R"(python
import json, os, signal

# Where a process stops in between nobody needs to see. Earlier than 12 gdb can't be told so.
def quietly(command):
    switch = 'set suppress-cli-notifications %s'
    try:
        gdb.execute(switch % 'on', to_string=True)
    except gdb.error:
        pass
    try:
        gdb.execute(command, to_string=True)
    finally:
        try:
            gdb.execute(switch % 'off', to_string=True)
        except gdb.error:
            pass

# Behind a call its frames, which are the MPI's, are in the way.
def on_stop(event):
    if cairn.end is not None and cairn.end in getattr(event, 'breakpoints', ()):
        program_frame().select()
        if not cairn.quiet:
            gdb.execute('frame')

class Cairn:
    def __init__(self, descriptor):
        self.answers = os.fdopen(descriptor, 'rb', buffering=0)
        self.requests = os.fdopen(os.dup(descriptor), 'wb', buffering=0)
        self.text, self.prompt, self.end = b'', '(gdb) ', None
        hello = self.ask({'do': 'hello'})
        self.live, self.names = hello['live'], hello['commands']

    def read_line(self):
        while b'\n' not in self.text:
            more = self.answers.read(65536)
            if not more:
                raise gdb.GdbError('the debugger has ended')
            self.text += more
        line, self.text = self.text.split(b'\n', 1)
        return line

    def ask(self, what):
        # The debugger has the same interrupt, gives up what it does, and says so. Here it would cost the answer.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.requests.write(json.dumps(what).encode() + b'\n')
            answer = json.loads(self.read_line())
            signal.sigtimedwait([signal.SIGINT], 0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if 'error' in answer:
            raise gdb.GdbError(answer['error'])
        return answer

    def let_go(self):
        if self.end is not None:
            self.end.delete()
            self.end = None
        if gdb.selected_inferior().pid != 0:
            quietly('detach')

    # gdb has the rank in focus, where it stands.
    def take(self):
        self.let_go()
        there = self.ask({'do': 'stand'})
        self.prompt = '(gdb %s) ' % there['prompt']
        quietly('attach %d' % there['pid'])
        if there['runs']:
            self.run_ahead()
        program_frame().select()
        gdb.execute('frame')

    # Out of the call, whose frames are the MPI's, and up to the next one if the user lets it go on.
    def run_ahead(self):
        self.ask({'do': 'run'})
        self.end = EndOfTheWay()
        behind = gdb.Breakpoint('*0x%x' % program_frame().pc(), internal=True, temporary=True)
        behind.silent = True
        self.quiet = True
        try:
            quietly('continue')
        finally:
            self.quiet = False
        if behind.is_valid():
            behind.delete()

    def say(self, line):
        if self.live:
            self.let_go()
        try:
            answer = self.ask({'do': 'line', 'line': line})
            gdb.write(answer['text'])
            if answer['over']:
                gdb.execute('quit')
        except gdb.GdbError:
            if self.live:
                self.take()
            raise
        if answer['moved'] or self.live:
            self.take()

class EndOfTheWay(gdb.Breakpoint):
    def __init__(self):
        super().__init__('cairn_mpi_stands', internal=True)
        self.silent = True

    def stop(self):
        if not cairn.quiet:
            gdb.write('This is behind the next call, and as far as the copy goes: `mpi step` moves the rank.\n')
        return True

class Line(gdb.Command):
    def __init__(self, name, line, text):
        self.line = line
        self.__doc__ = text
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, words, from_tty):
        line = ('%s %s' % (self.line, words)).strip()
        if line.split(' ')[0] == 'gdb':
            raise gdb.GdbError('this is gdb: `mpi focus RANK` brings another rank here')
        if line.split(' ')[0] not in ('step', 'reverse-step'):
            self.dont_repeat()
        cairn.say(line or 'cut')

    def complete(self, text, word):
        if self.line or ' ' in text:
            return gdb.COMPLETE_NONE
        return [each for each in cairn.names if each.startswith(text)]

cairn = Cairn(%SOCKET%)
cairn.quiet = False
gdb.prompt_hook = lambda current: cairn.prompt
gdb.events.stop.connect(on_stop)
# `step` goes over calls of the MPI, as it does where the layer has no debugging information.
gdb.execute('skip -gfi */mpi/interposer/*', to_string=True)
Line('mpi', '', 'A command of the debugger of the whole computation: `mpi help` lists them.')
for name, line in (('to', 'to'), ('back', 'back'), ('forward', 'forward'), ('why', 'why'), ('rank', 'focus'), ('transit', 'transit'),
                   ('waits', 'waits'), ('what-if', 'what-if'), ('reverse-step', 'reverse-step'), ('reverse-continue', 'reverse-continue')):
    Line(name, line, 'As `mpi %s`.' % line)
try:
    gdb.write(cairn.ask({'do': 'begin'})['text'])
    cairn.take()
except gdb.GdbError as why:
    gdb.write('%s\n' % why)
end
)";

}  // namespace cairn::mpi::debug::gdb_front

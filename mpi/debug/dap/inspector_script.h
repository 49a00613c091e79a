// The script that an Inspector's gdb runs.
#pragma once

namespace cairn::mpi::debug::dap {

// Reads requests and writes answers, a line of JSON each. The descriptor of the socket is put in for
// %SOCKET%.
inline constexpr const char* inspector_script = R"(set print elements 200
set print repeats 50
python
import json, os
requests, answers = os.fdopen(%SOCKET%), os.fdopen(os.dup(%SOCKET%), 'w')
frames, parts, language = [], [], 'c'

# Of a large array no more is read than is shown.
def text_of(value):
    try:
        kind = value.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_ARRAY and kind.sizeof > 65536:
            low = kind.range()[0]
            return '{%s...}' % ''.join('%s, ' % text_of(value[low + i]) for i in range(min(10, elements_of(kind))))
        return value.format_string(max_elements=40, max_depth=2)
    except Exception as why:
        return '<%s>' % why

def bare(value):
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return value.referenced_value()
    return value

def elements_of(kind):
    low, high = kind.range()
    return max(0, high - low + 1)

# How many parts it has: of an array its elements. None: it has none.
def count_of(value):
    value = bare(value)
    kind = value.type.strip_typedefs()
    printer = gdb.default_visualizer(value)
    if printer is not None:
        return -1 if hasattr(printer, 'children') else None
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return elements_of(kind) or None
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return -1 if kind.fields() else None
    if kind.code == gdb.TYPE_CODE_PTR:
        target = kind.target().strip_typedefs()
        if int(value) == 0 or target.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC) or target.sizeof == 0:
            return None
        if target.sizeof == 1 and target.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR):
            return None
        return -1
    return None

def described(name, value, expression):
    told = {'name': name, 'expression': expression, 'reference': 0}
    try:
        told['type'] = str(value.type)
        told['value'] = text_of(value)
        count = count_of(value)
        if count is not None:
            parts.append((value, expression))
            told['reference'] = len(parts)
            if count >= 0:
                told['elements'] = count
    except Exception as why:
        told.setdefault('type', '')
        told['value'] = '<%s>' % why
    return told

def children_of(value, expression, start, count):
    value = bare(value)
    kind = value.type.strip_typedefs()
    printer = gdb.default_visualizer(value)
    fortran = language == 'fortran'
    if printer is not None:
        for number, (name, child) in enumerate(printer.children()):
            if number >= start + count:
                break
            if number >= start:
                if isinstance(child, gdb.Value):
                    yield described(name, child, '')
                else:
                    yield {'name': name, 'value': str(child), 'type': '', 'expression': '', 'reference': 0}
    elif kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        for i in range(low + start, min(high + 1, low + start + count)):
            subscript = '(%d)' % i if fortran else '[%d]' % i
            yield described(subscript, value[i], '%s%s' % (expression, subscript))
    elif kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        for field in kind.fields():
            if not hasattr(field, 'bitpos') and not field.is_base_class:
                yield described(field.name or '', value[field], '')  # a static member
            elif field.is_base_class:
                yield described(str(field.type), value[field], '')
            else:
                name = field.name or '(without a name)'
                yield described(name, value[field], '%s%s%s' % (expression, '%' if fortran else '.', name) if field.name else '')
    else:
        yield described('*' + expression, value.dereference(), '(*%s)' % expression)

def select(number):
    global language
    frame = frames[number]
    frame.select()
    language = frame.language() if hasattr(frame, 'language') else 'c'  # since gdb 13
    return frame

def do_frames(ask):
    if not frames:
        frame = program_frame()
        while frame is not None and len(frames) < 200:
            frames.append(frame)
            frame = frame.older()
    told = []
    for frame in frames:
        sal = frame.find_sal()
        told.append({'name': frame.name() or '0x%x' % frame.pc(), 'line': sal.line if sal.symtab else 0,
                     'path': sal.symtab.fullname() if sal.symtab else ''})
    return told

def symbols(blocks):
    known = set()
    for block in blocks:
        for symbol in block:
            if (symbol.is_argument or symbol.is_variable) and symbol.name and symbol.name not in known:
                known.add(symbol.name)
                yield symbol

def value_of(symbol, frame):
    return symbol.value(frame) if symbol.needs_frame else symbol.value()

def told_of(found, frame):
    told = []
    for symbol in found:
        try:
            told.append(described(symbol.name, value_of(symbol, frame), symbol.name))
        except Exception as why:
            told.append({'name': symbol.name, 'value': '<%s>' % why, 'type': '', 'expression': '', 'reference': 0})
    return told

def do_locals(ask):
    frame = select(ask['frame'])
    blocks, block = [], None
    try:
        block = frame.block()
    except RuntimeError:
        return []
    while block is not None and not block.is_global and not block.is_static:
        blocks.append(block)
        if block.function is not None:
            break
        block = block.superblock
    return told_of(symbols(blocks), frame)

def do_globals(ask):
    frame = select(ask['frame'])
    symtab = frame.find_sal().symtab
    if symtab is None:
        return []
    blocks = [symtab.static_block(), symtab.global_block()]
    return told_of([each for each in symbols(blocks) if each.symtab.filename == symtab.filename], frame)

def do_children(ask):
    value, expression = parts[ask['of'] - 1]
    return list(children_of(value, expression, ask.get('start', 0), ask.get('count') or 1000))

def do_evaluate(ask):
    select(ask['frame'])
    return described(ask['expression'], gdb.parse_and_eval(ask['expression']), '(%s)' % ask['expression'])

for line in requests:
    ask = json.loads(line)
    try:
        told = {'told': globals()['do_' + ask['do']](ask)}
    except Exception as why:
        told = {'error': str(why)}
    answers.write(json.dumps(told) + '\n')
    answers.flush()
end
)";

}  // namespace cairn::mpi::debug::dap

// What a process executes before the restorer is there: it maps memory for the restorer, traps, and once the tool
// has written the restorer into that memory makes it executable and jumps into it. The tool puts this over code
// of the process that is never executed again (enter.cpp), and says by registers what to do: those of the calls,
// rbx = restorer::Params, rbp = where to jump, r12 = restorer::step_protect.
    .section .rodata
    .global cairn_entrance_begin
cairn_entrance_begin:
    mov $9, %eax                // mmap(2): rax itself can't be set in the stop inside execve
    syscall
    int3
    .global cairn_entrance_go
cairn_entrance_go:
    mov $10, %eax               // mprotect(2)
    syscall
    test %eax, %eax
    jnz 1f
    mov %rbx, %rdi
    jmp *%rbp
1:  neg %eax                    // Params::failed_step, failed_errno, failed_detail
    mov %r12d, (%rbx)
    mov %eax, 4(%rbx)
    mov %rdi, 8(%rbx)
    int3
    .balign 8, 0xcc
    .global cairn_entrance_end
cairn_entrance_end:
    .section .note.GNU-stack, "", @progbits

// syscall(2)'s function. Numbers without ids and relative timeouts go to the kernel from here, with the caller's stack as it is: a
// clone that gives its child another stack returns there. The others go on to
// cairn_syscall_with_ids, which has the same arguments.
    .text
    .globl syscall
    .type syscall, @function
syscall:
    .cfi_startproc
    endbr64
    cmpq $512, %rdi
    jae 1f
    cmpq $56, %rdi
    je 3f
    leaq cairn_syscalls_with_ids(%rip), %rax
    cmpb $0, (%rax, %rdi)
    jne cairn_syscall_with_ids
1:
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    syscall
    cmpq $-4095, %rax
    jae 2f
    ret
2:
    movq %rax, %rdi
    jmp cairn_syscall_failed
3:
    testq %rdx, %rdx  // clone with a stack of its own, or (CLONE_VM) with ours
    jnz 1b
    testl $0x100, %esi
    jnz 1b
    jmp cairn_syscall_with_ids
    .cfi_endproc
    .size syscall, . - syscall
    .section .note.GNU-stack, "", @progbits

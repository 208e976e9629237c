"""Our kernels and training steps against PyTorch's: the parts of two tools.

arguments       values that both command lines accept

Of overlapbench peers, against PyTorch, torch.compile and Triton:

cases           the cases and their figures: no GPU needed
report          the figures as text and as JSON; reader reads the JSON back
chart           the figures as pictures, with Altair
timing          alternating samples with a cold cache, on a GPU
host_cost       the host's time per call
contestants     each peer as a function of the same tensors, and the oracle in double precision
triton_kernels  the Triton versions

Of tools/torch_training.py:

training        the shapes, rows and peers, and measuring them in turn: no PyTorch needed
training_table  the outcomes as text
torch_peers     PyTorch's side on this process's device
torch_layers    tensor-parallel layers: sequences, and the fused operators
torch_steps     DistributedDataParallel and fully_shard
torch_pipelines the schedules of torch.distributed.pipelining
"""

"""The suite's training steps against PyTorch's: the parts of `overlapbench peers`.

arguments       values that its command line accepts
training        the shapes, rows and peers, and measuring them in turn: no PyTorch needed
training_table  the outcomes as text
torch_peers     PyTorch's side on this process's device
torch_layers    tensor-parallel layers: sequences, and the fused operators
torch_steps     DistributedDataParallel and fully_shard
torch_pipelines the schedules of torch.distributed.pipelining
"""
